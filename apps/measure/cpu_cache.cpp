#include "measure/cpu_cache.hpp"

#include <hwy/cache_control.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>

namespace runmax::measure {

std::int64_t last_level_cache_bytes() {
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::int64_t size = 0;
    char unit = ' ';
    if (!(file >> size)) continue;
    file >> unit;
    largest = std::max(largest, size * (unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1));
  }
  return largest > 0 ? largest : 32 * 1024 * 1024;
}

void flush_lines(const void* data, std::size_t bytes) {
  constexpr std::size_t line = 64;
  const char* begin = static_cast<const char*>(data);
  for (std::size_t at = 0; at < bytes; at += line) hwy::FlushCacheline(begin + at);
  if (bytes > 0) hwy::FlushCacheline(begin + bytes - 1);
  // The clock must not start before the last line has left.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace runmax::measure
