// Caches of this machine's CPU: how large the last one is, and how to empty it of a range of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace runmax::measure {

// Bytes of the largest cache that the system reports; 32 MiB where it reports none.
std::int64_t last_level_cache_bytes();

// Writes back and drops every cache line of [data, data + bytes), from all caches of all cores.
void flush_lines(const void* data, std::size_t bytes);

}  // namespace runmax::measure
