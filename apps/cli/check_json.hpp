// One kernel's verdict as JSON, for `check` and for `run --check`.
#pragma once

#include <nlohmann/json.hpp>

#include "check/check.hpp"

namespace runmax::cli {

nlohmann::ordered_json to_json(const check::KernelReport& kernel);

}  // namespace runmax::cli
