// What one FP32 head of attention costs in bytes and flops, with and without the score matrix (C++17, pure).
#pragma once

#include <cstdint>

namespace runmax {
namespace lesson {

// Query rows that share one sweep over the keys in the online kernel.
constexpr std::int64_t query_rows_per_block = 64;

// One head, N queries and N keys of width d, four bytes an element. All byte counts are exact.
struct Costs {
  std::int64_t n = 0;
  std::int64_t d = 0;
  // The score matrix: 4 * N^2.
  std::int64_t score_bytes = 0;
  // Five passes over N^2 floats (write S; read it for the maximum; read it and write the exponentials; read
  // those for the mix), plus the floor: 20 * N^2 + 16 * N * d.
  std::int64_t naive_bytes = 0;
  // Q, K and V read once, O written once: 16 * N * d.
  std::int64_t floor_bytes = 0;
  // What the naive path moves and the online path does not: 20 * N^2.
  std::int64_t skipped_bytes = 0;
  // What the online kernel asks for: Q and O once, K and V once per block of 64 query rows.
  std::int64_t online_requested_bytes = 0;
  // naive_bytes / floor_bytes.
  double ratio = 0;
  // The two matrix products: 4 * N^2 * d.
  double flops = 0;
  // flops / (20 * N^2) = d / 5: it does not depend on N.
  double naive_intensity = 0;
  // flops / floor_bytes = N / 4.
  double online_intensity = 0;
};

// n >= 1 and d >= 1; exact up to n = 2^28 at d = 64.
inline Costs attention_costs(std::int64_t n, std::int64_t d) {
  const std::int64_t blocks = (n + query_rows_per_block - 1) / query_rows_per_block;
  Costs costs;
  costs.n = n;
  costs.d = d;
  costs.score_bytes = 4 * n * n;
  costs.skipped_bytes = 20 * n * n;
  costs.floor_bytes = 16 * n * d;
  costs.naive_bytes = costs.skipped_bytes + costs.floor_bytes;
  costs.online_requested_bytes = 8 * n * d + blocks * 8 * n * d;
  costs.flops = 4.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(d);
  costs.ratio = static_cast<double>(costs.naive_bytes) / static_cast<double>(costs.floor_bytes);
  costs.naive_intensity = costs.flops / static_cast<double>(costs.skipped_bytes);
  costs.online_intensity = costs.flops / static_cast<double>(costs.floor_bytes);
  return costs;
}

// A path runs only where its memory fits in 80 % of what is free, so that nothing else is pushed out.
inline bool fits_in_memory(double needed_bytes, double free_bytes) {
  return needed_bytes <= 0.8 * free_bytes;
}

// The naive path keeps S and P, two matrices of 4 * N^2 bytes.
inline bool naive_fits(std::int64_t n, std::int64_t free_bytes) {
  return fits_in_memory(2.0 * 4.0 * static_cast<double>(n) * static_cast<double>(n),
                        static_cast<double>(free_bytes));
}

// Milliseconds that `bytes` take at `bytes_per_second`.
inline double milliseconds_for(double bytes, double bytes_per_second) {
  return bytes / bytes_per_second * 1e3;
}

// Flops per byte above which a kernel is limited by arithmetic and below which by memory.
inline double ridge_point(double flops_per_second, double bytes_per_second) {
  return flops_per_second / bytes_per_second;
}

}  // namespace lesson
}  // namespace runmax
