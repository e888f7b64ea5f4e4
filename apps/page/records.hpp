// Records of measurements, read strictly: what a page shows is what its schema allows, and nothing else.
#pragma once

#include <string>
#include <string_view>

#include "runmax/status.hpp"

namespace runmax::page {

// One record, checked: JSON with exactly the fields that its schema names.
struct Record {
  std::string json;
};

// Reads a record of a known schema ("runmax.lab", "runmax.bench" or "runmax.judge", version 1). The error
// names the field, the rule and the value, in one line, without the file's name. Fields that the schema does
// not name are left out.
Result<Record> read_record(std::string_view text);

}  // namespace runmax::page
