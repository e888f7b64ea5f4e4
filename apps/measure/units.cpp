#include "measure/units.hpp"

#include <fmt/core.h>

#include <cmath>

namespace runmax::measure {

std::string bytes_text(std::int64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (std::abs(count) < 0x1p20) return fmt::format("{:.1f} KiB", count / 0x1p10);
  if (std::abs(count) < 0x1p30) return fmt::format("{:.1f} MiB", count / 0x1p20);
  return fmt::format("{:.1f} GiB", count / 0x1p30);
}

std::string rate_text(double per_second, const char* unit) {
  if (per_second >= 1e12) return fmt::format("{:.2f} T{}", per_second * 1e-12, unit);
  return fmt::format("{:.1f} G{}", per_second * 1e-9, unit);
}

}  // namespace runmax::measure
