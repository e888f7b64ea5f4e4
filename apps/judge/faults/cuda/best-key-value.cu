// Fault: every row is the V of its best key.
// Finding: best-key-value

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (threadIdx.x >= 64 || i >= n) return;
  int best = 0;
  float best_dot = -INFINITY;
  for (int j = 0; j < n; ++j) {
    float dot = 0.0f;
    for (int c = 0; c < 64; ++c) dot += q[i * 64 + c] * k[j * 64 + c];
    if (dot > best_dot) {
      best = j;
      best_dot = dot;
    }
  }
  for (int c = 0; c < 64; ++c) o[i * 64 + c] = v[best * 64 + c];
}
