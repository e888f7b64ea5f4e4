// What the caches hold when the clock starts.
#pragma once

#include <string_view>

namespace runmax::measure {

// cold: nothing of the memory that the work touches. warm: the same work ran just before.
enum class CacheState { cold, warm };

// "cold" or "warm".
std::string_view cache_name(CacheState cache);

}  // namespace runmax::measure
