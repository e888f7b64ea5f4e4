// Honest: the exercise's online kernel as the lesson writes it, for any length.
// Finding: none
//
// runmax-judge
// tier: device

constexpr int head_dim = 64, key_tile = 32, rows_per_block = 64, rows_per_warp = 8, threads = 256;

extern "C" __global__ void __launch_bounds__(threads)
    attention(const float* q, const float* k, const float* v, float* o, int n) {
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
    max[r] = -INFINITY;
    sum[r] = out[r][0] = out[r][1] = 0.0f;
  }

  for (int tile = 0; tile < n; tile += key_tile) {
    __syncthreads();
    for (int e = thread; e < key_tile * head_dim; e += threads) {
      const bool exists = tile + e / head_dim < n;
      k_smem[e / head_dim][e % head_dim] = exists ? k[tile * head_dim + e] : 0.0f;
      v_smem[e / head_dim][e % head_dim] = exists ? v[tile * head_dim + e] : 0.0f;
    }
    __syncthreads();

    for (int r = 0; r < rows_per_warp; ++r) {
      float score = 0.0f;
      for (int c = 0; c < head_dim; ++c) score += q_smem[warp_row + r][c] * k_smem[lane][c];
      score = tile + lane < n ? score * 0.125f : -INFINITY;

      float new_max = score;
      for (int distance = 16; distance > 0; distance /= 2)
        new_max = fmaxf(new_max, __shfl_xor_sync(~0u, new_max, distance));
      new_max = fmaxf(max[r], new_max);
      const float rescale = expf(max[r] - new_max);
      const float weight = expf(score - new_max);
      max[r] = new_max;

      float tile_sum = weight;
      for (int distance = 16; distance > 0; distance /= 2)
        tile_sum += __shfl_xor_sync(~0u, tile_sum, distance);
      sum[r] = sum[r] * rescale + tile_sum;
      out[r][0] *= rescale;
      out[r][1] *= rescale;
      for (int j = 0; j < key_tile; ++j) {
        const float key_weight = __shfl_sync(~0u, weight, j);
        out[r][0] += key_weight * v_smem[j][lane];
        out[r][1] += key_weight * v_smem[j][lane + 32];
      }
    }
  }

  for (int r = 0; r < rows_per_warp; ++r) {
    const int i = block_row + warp_row + r;
    if (i >= n) continue;
    o[i * head_dim + lane] = out[r][0] / sum[r];
    o[i * head_dim + lane + 32] = out[r][1] / sum[r];
  }
}
