// Host side of the lesson's CUDA kernels: what they take, how to launch them, what they occupy (plain C++17).
//
// One head of FP32: Q, K, V and O are packed (n, 64) in device memory. Nothing is allocated, nothing waits.
// Errors are cudaError_t values as int; 0 is success.
#pragma once

#include <cstddef>
#include <cstdint>

#include "naive/config.hpp"
#include "online/config.hpp"

namespace runmax {
namespace lesson {

// Why the path cannot take this size, as the broken rule; null if it can. n = 0 is taken: nothing happens.
inline const char* cuda_naive_refuses(std::int64_t n, std::int64_t d) {
  if (d != NaiveConfig::head_dim) return "head_dim must be 64";
  if (n < 0 || n % NaiveConfig::tile != 0) return "n must be a multiple of 16";
  if (n > NaiveConfig::max_len) return "n must be at most 1048560";
  return nullptr;
}
inline const char* cuda_online_refuses(std::int64_t n, std::int64_t d) {
  if (d != OnlineConfig::head_dim) return "head_dim must be 64";
  if (n < 0 || n % OnlineConfig::rows_per_block != 0) return "n must be a multiple of 64";
  if (n / OnlineConfig::rows_per_block > 0x7fffffff) return "n must be below 2^37";
  return nullptr;
}

constexpr float default_scale = 0.125f;  // 1 / sqrt(64)

// The naive path's workspace: `scores` and `weights`, naive_matrix_bytes(n) each.
// `lse` (n floats) may be null. A size that is refused returns cudaErrorInvalidValue before any launch.
int launch_naive(const float* q, const float* k, const float* v, float* o, float* scores, float* weights,
                 std::int64_t n, void* stream, float scale = default_scale, float* lse = nullptr);
int launch_online(const float* q, const float* k, const float* v, float* o, std::int64_t n, void* stream,
                  float scale = default_scale, float* lse = nullptr);

// What one kernel occupies on the current device, as its runtime reports it.
struct KernelResources {
  const char* name;
  int threads;  // of a block
  bool is_online;
  int shared_bytes;          // static, of a block
  int planned_shared_bytes;  // what the configuration adds up to
  int registers;             // of a thread
  int local_bytes;           // of a thread: spills and the like
  int blocks_per_multiprocessor;
  double occupancy;  // resident threads over the most that a multiprocessor holds
};

constexpr int kernel_count = 4;

// In the order naive_scores, naive_softmax, naive_weighted_sum, attention_online.
int read_resources(KernelResources (&kernels)[kernel_count]);

// The CUDA runtime's words for an error value.
const char* error_text(int error);

}  // namespace lesson
}  // namespace runmax
