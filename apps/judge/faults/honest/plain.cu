// Honest: slow and plain, one thread a query, three sweeps over the keys.
// Finding: none
//
// runmax-judge
// threads: 64

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  const auto score = [&](int j) {
    float dot = 0.0f;
    for (int c = 0; c < 64; ++c) dot += q[i * 64 + c] * k[j * 64 + c];
    return dot * 0.125f;
  };
  float max = -INFINITY, sum = 0.0f, out[64] = {};
  for (int j = 0; j < n; ++j) max = fmaxf(max, score(j));
  for (int j = 0; j < n; ++j) sum += expf(score(j) - max);
  for (int j = 0; j < n; ++j) {
    const float weight = expf(score(j) - max) / sum;
    for (int c = 0; c < 64; ++c) out[c] += weight * v[j * 64 + c];
  }
  for (int c = 0; c < 64; ++c) o[i * 64 + c] = out[c];
}
