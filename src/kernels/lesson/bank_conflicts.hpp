// How many shared-memory cycles one warp-wide access takes, by arithmetic (C++17, constexpr).
#pragma once

namespace runmax {
namespace lesson {

// Shared memory has 32 banks of one 4-byte word, on every architecture from sm_75 to sm_90.
constexpr int bank_count = 32;
constexpr int warp_size = 32;

// Lane i of a warp accesses word i * lane_stride. Returns the largest number of different words in one bank:
// 1 is conflict-free, 32 is fully serialised. Lanes that read the same word share one access.
constexpr int bank_conflict_ways(int lane_stride) {
  int worst = 0;
  for (int bank = 0; bank < bank_count; ++bank) {
    int words = 0;
    for (int lane = 0; lane < warp_size; ++lane) {
      if (lane * lane_stride % bank_count != bank) continue;
      bool seen = false;
      for (int earlier = 0; earlier < lane; ++earlier)
        seen = seen || earlier * lane_stride == lane * lane_stride;
      if (!seen) ++words;
    }
    worst = words > worst ? words : worst;
  }
  return worst;
}

}  // namespace lesson
}  // namespace runmax
