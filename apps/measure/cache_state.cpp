#include "measure/cache_state.hpp"

namespace runmax::measure {

std::string_view cache_name(CacheState cache) { return cache == CacheState::cold ? "cold" : "warm"; }

}  // namespace runmax::measure
