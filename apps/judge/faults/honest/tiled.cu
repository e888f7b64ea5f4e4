// Honest: another tiling, one thread a query, 128 queries a block, 16 keys at once, in base 2.
// Finding: none
//
// runmax-judge
// key_tile: 16
// blocks: (n + 127)/128
// threads: 128

constexpr int head_dim = 64, key_tile = 16, rows_per_block = 128;

extern "C" __global__ void __launch_bounds__(rows_per_block)
    attention(const float* q, const float* k, const float* v, float* o, int n) {
  __shared__ float k_smem[key_tile][head_dim], v_smem[key_tile][head_dim];
  const int i = blockIdx.x * rows_per_block + threadIdx.x;
  constexpr float scale_log2 = 0.125f * 1.44269504f;

  float query[head_dim], out[head_dim] = {};
  for (int c = 0; c < head_dim; ++c) query[c] = i < n ? q[i * head_dim + c] * scale_log2 : 0.0f;
  float max = -INFINITY, sum = 0.0f;
  for (int tile = 0; tile < n; tile += key_tile) {
    const int count = min(key_tile, n - tile);
    __syncthreads();
    for (int e = threadIdx.x; e < count * head_dim; e += rows_per_block) {
      k_smem[e / head_dim][e % head_dim] = k[tile * head_dim + e];
      v_smem[e / head_dim][e % head_dim] = v[tile * head_dim + e];
    }
    __syncthreads();

    float weight[key_tile], new_max = max;
    for (int j = 0; j < count; ++j) {
      weight[j] = 0.0f;
      for (int c = 0; c < head_dim; ++c) weight[j] += query[c] * k_smem[j][c];
      new_max = fmaxf(new_max, weight[j]);
    }
    const float rescale = exp2f(max - new_max);
    max = new_max;
    sum *= rescale;
    for (int c = 0; c < head_dim; ++c) out[c] *= rescale;
    for (int j = 0; j < count; ++j) {
      weight[j] = exp2f(weight[j] - max);
      sum += weight[j];
      for (int c = 0; c < head_dim; ++c) out[c] += weight[j] * v_smem[j][c];
    }
  }
  if (i < n)
    for (int c = 0; c < head_dim; ++c) o[i * head_dim + c] = out[c] / sum;
}
