// What a shared library offers to others, read from the file: nothing of it is loaded or run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runmax/status.hpp"

namespace runmax::judge {

// Names of the functions and variables that the library defines for others. An error says what is wrong with
// the file.
Result<std::vector<std::string>> exported_names(std::string_view library);

// The first of the names that this process's own libraries define too, or "": a library that exports
// `memcpy` may mean to be called in its place.
std::string system_name_among(const std::vector<std::string>& names);

}  // namespace runmax::judge
