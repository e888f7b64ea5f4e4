// The exercise's online kernel in CUDA, every step of it by name, so that a candidate can get one wrong.
//
// A fault is a struct derived from Right that hides one of its functions. Blocks of 256 threads own 64
// queries, a warp eight of them; of each tile of 32 keys a lane owns one key, and of the output dimensions
// `lane` and `lane + 32`.
#pragma once

constexpr int head_dim = 64;
constexpr int key_tile = 32;
constexpr int rows_per_block = 64;
constexpr int rows_per_warp = 8;
constexpr int threads = 256;

struct Right {
  // Which memory.
  __device__ float key(const float* k, int n, int j, int c) const {
    return j < n ? k[j * head_dim + c] : 0.0f;
  }
  __device__ float value(const float* v, int n, int j, int c) const {
    return j < n ? v[j * head_dim + c] : 0.0f;
  }
  __device__ int place_of_row(int i, int /*n*/) const { return i; }
  __device__ int place_of_dimension(int c) const { return c; }

  // Which keys: [first, last) of n.
  __device__ int first(int /*n*/) const { return 0; }
  __device__ int last(int n) const { return n; }
  __device__ bool sees(int /*i*/, int /*key*/) const { return true; }

  // What a product multiplies, and what the scores are multiplied by.
  __device__ float operand(float value) const { return value; }
  __device__ float scale() const { return 0.125f; }

  // The identity.
  __device__ float starting_maximum() const { return -INFINITY; }
  __device__ float raised(float old_max, float tile_max) const { return fmaxf(old_max, tile_max); }
  __device__ float subtracted(float /*old_max*/, float /*tile_max*/, float new_max) const { return new_max; }
  __device__ float weight(float score, float max) const { return expf(score - max); }
  __device__ float factor_of_sum(float rescale) const { return rescale; }
  __device__ float factor_of_output(float rescale) const { return rescale; }
  __device__ float times(int /*key*/, int /*n*/) const { return 1.0f; }
  __device__ float mixed(float weight, float /*sum*/) const { return weight; }
  __device__ float answer(float out, float sum) const { return out / sum; }
};

template <class Fault>
__device__ void attend(const float* q, const float* k, const float* v, float* o, int n, const Fault& fault) {
  __shared__ float q_smem[rows_per_block][head_dim];
  __shared__ float k_smem[key_tile][head_dim + 1];  // lanes walk down keys: without the pad all on one bank
  __shared__ float v_smem[key_tile][head_dim];

  const int thread = threadIdx.x, lane = thread % 32, warp_row = thread / 32 * rows_per_warp;
  const int block_row = blockIdx.x * rows_per_block;
  for (int e = thread; e < rows_per_block * head_dim; e += threads) {
    const int row = block_row + e / head_dim;
    q_smem[e / head_dim][e % head_dim] = row < n ? q[row * head_dim + e % head_dim] : 0.0f;
  }

  float max[rows_per_warp], sum[rows_per_warp], out[rows_per_warp][2];
  for (int r = 0; r < rows_per_warp; ++r) {
    max[r] = fault.starting_maximum();
    sum[r] = out[r][0] = out[r][1] = 0.0f;
  }

  const int last = fault.last(n);
  for (int tile = fault.first(n); tile < last; tile += key_tile) {
    __syncthreads();
    for (int e = thread; e < key_tile * head_dim; e += threads) {
      k_smem[e / head_dim][e % head_dim] = fault.operand(fault.key(k, n, tile + e / head_dim, e % head_dim));
      v_smem[e / head_dim][e % head_dim] =
          fault.operand(fault.value(v, n, tile + e / head_dim, e % head_dim));
    }
    __syncthreads();

    for (int r = 0; r < rows_per_warp; ++r) {
      const bool exists = tile + lane < last && fault.sees(block_row + warp_row + r, tile + lane);
      float dot = 0.0f;
      for (int c = 0; c < head_dim; ++c) dot += fault.operand(q_smem[warp_row + r][c]) * k_smem[lane][c];
      const float score = exists ? dot * fault.scale() : -INFINITY;

      float tile_max = score;
      for (int distance = 16; distance > 0; distance /= 2)
        tile_max = fmaxf(tile_max, __shfl_xor_sync(~0u, tile_max, distance));
      const float new_max = fault.raised(max[r], tile_max);
      const float rescale = expf(max[r] - new_max);
      const float subtracted = fault.subtracted(max[r], tile_max, new_max);
      max[r] = new_max;

      const float weight = exists ? fault.weight(score, subtracted) * fault.times(tile + lane, n) : 0.0f;
      float tile_sum = weight;
      for (int distance = 16; distance > 0; distance /= 2)
        tile_sum += __shfl_xor_sync(~0u, tile_sum, distance);
      sum[r] = sum[r] * fault.factor_of_sum(rescale) + tile_sum;

      const float mixed = fault.operand(fault.mixed(weight, sum[r]));
      out[r][0] *= fault.factor_of_output(rescale);
      out[r][1] *= fault.factor_of_output(rescale);
      for (int j = 0; j < key_tile; ++j) {
        const float key_weight = __shfl_sync(~0u, mixed, j);
        out[r][0] += key_weight * v_smem[j][lane];
        out[r][1] += key_weight * v_smem[j][lane + 32];
      }
    }
  }

  for (int r = 0; r < rows_per_warp; ++r) {
    const int i = block_row + warp_row + r;
    if (i >= n) continue;
    float* row = o + fault.place_of_row(i, n) * head_dim;
    row[fault.place_of_dimension(lane)] = fault.answer(out[r][0], sum[r]);
    row[fault.place_of_dimension(lane + 32)] = fault.answer(out[r][1], sum[r]);
  }
}
