// The lesson's CUDA kernels made worse on purpose: with a planted fault, without padding, without a tile.
#include "lab/faulty_kernels.hpp"

#include "kernels/lesson/naive/kernel.cuh"
#include "kernels/lesson/online/kernel.cuh"

namespace runmax::lab {
namespace {

constexpr float score_scale = 0.125f;  // 1/sqrt(64)

// Key rows are 64 floats apart: the 32 lanes that walk down one channel all meet in one bank.
struct UnpaddedConfig : lesson::OnlineConfig {
  static constexpr int key_row_floats = head_dim;
};

// One thread a score, both rows straight from global memory.
__global__ void untiled_scores(const float* __restrict__ q, const float* __restrict__ k,
                               float* __restrict__ scores, std::int64_t n, float scale) {
  constexpr int width = lesson::OnlineConfig::head_dim;
  const std::int64_t key = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t query = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  if (key >= n || query >= n) return;
  float dot = 0.0f;
  for (int c = 0; c < width; ++c) dot += q[query * width + c] * k[key * width + c];
  scores[query * n + key] = dot * scale;
}

// One thread an output element, weights and values straight from global memory.
__global__ void untiled_weighted_sum(const float* __restrict__ weights, const float* __restrict__ v,
                                     float* __restrict__ o, std::int64_t n) {
  constexpr int width = lesson::OnlineConfig::head_dim;
  const std::int64_t query = blockIdx.x;
  const int channel = static_cast<int>(threadIdx.x);
  float out = 0.0f, sum = 0.0f;
  for (std::int64_t key = 0; key < n; ++key) {
    const float weight = weights[query * n + key];
    sum += weight;
    out += weight * v[key * width + channel];
  }
  o[query * width + channel] = out / sum;
}

Status launched(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return {StatusCode::device_error,
          std::string("cuda: launching ") + what + ": " + cudaGetErrorString(error)};
}

template <class Config, class Rule>
void launch_online(const HeadBuffers& head, Stream stream, Rule rule) {
  lesson::attention_online<Config, Rule>
      <<<static_cast<unsigned>(head.n / Config::rows_per_block), Config::threads, 0,
         static_cast<cudaStream_t>(stream)>>>(head.q->floats(), head.k->floats(), head.v->floats(),
                                              head.o->floats(), nullptr, head.n, score_scale, rule);
}

}  // namespace

Status cuda_faulty_online(Fault fault, const HeadBuffers& head, Stream stream) {
  with_rule(fault, [&](auto rule) { launch_online<lesson::OnlineConfig>(head, stream, rule); });
  return launched("an online kernel with a fault");
}

Status cuda_unpadded_online(const HeadBuffers& head, Stream stream) {
  launch_online<UnpaddedConfig>(head, stream, lesson::Fold());
  return launched("the unpadded online kernel");
}

Status cuda_untiled_naive(const HeadBuffers& head, const Buffer& matrices, Stream stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const std::int64_t n = head.n;
  float *scores = matrices.floats(), *weights = scores + n * n;
  const unsigned tiles = static_cast<unsigned>((n + 15) / 16);
  untiled_scores<<<dim3(tiles, tiles), dim3(16, 16), 0, cuda_stream>>>(head.q->floats(), head.k->floats(),
                                                                       scores, n, score_scale);
  if (Status status = launched("untiled scores"); !status.ok()) return status;
  lesson::naive_softmax<lesson::NaiveConfig>
      <<<static_cast<unsigned>(n), lesson::NaiveConfig::threads, 0, cuda_stream>>>(scores, weights, nullptr,
                                                                                   n);
  if (Status status = launched("the softmax"); !status.ok()) return status;
  untiled_weighted_sum<<<static_cast<unsigned>(n), lesson::OnlineConfig::head_dim, 0, cuda_stream>>>(
      weights, head.v->floats(), head.o->floats(), n);
  return launched("the untiled weighted sum");
}

}  // namespace runmax::lab
