// SHA-256, to name the candidate that was judged.
#pragma once

#include <string>
#include <string_view>

namespace runmax::judge {

// 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace runmax::judge
