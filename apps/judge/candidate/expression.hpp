// Integer expressions of a manifest: "4*n*d + 1024", "(n + 63)/64".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runmax/status.hpp"

namespace runmax::judge {

// The names that an expression may use, with their values.
using Variables = std::map<std::string, std::int64_t, std::less<>>;

// + - * / and brackets over whole numbers and names; division rounds down. An error says where and why; a
// result is in [0, 2^53].
Result<std::int64_t> evaluate(std::string_view expression, const Variables& variables);

}  // namespace runmax::judge
