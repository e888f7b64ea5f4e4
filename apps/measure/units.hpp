// Bytes and rates in words.
#pragma once

#include <cstdint>
#include <string>

namespace runmax::measure {

// "256.0 KiB", "324.0 MiB", "64.0 GiB".
std::string bytes_text(std::int64_t bytes);

// "357.6 GFLOP/s" for unit "FLOP/s", "4.27 TB/s" for "B/s".
std::string rate_text(double per_second, const char* unit);

}  // namespace runmax::measure
