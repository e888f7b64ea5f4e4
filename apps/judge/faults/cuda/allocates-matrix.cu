// Fault: each query takes memory for its row of scores from the heap of the device.
// Finding: matrix-stored
#include <cstdlib>

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (threadIdx.x >= 64 || i >= n) return;
  auto* row = static_cast<float*>(malloc(n * sizeof(float)));
  if (!row) __trap();
  float max = -INFINITY, sum = 0.0f;
  for (int j = 0; j < n; ++j) {
    float dot = 0.0f;
    for (int c = 0; c < 64; ++c) dot += q[i * 64 + c] * k[j * 64 + c];
    row[j] = dot * 0.125f;
    max = fmaxf(max, row[j]);
  }
  for (int j = 0; j < n; ++j) sum += row[j] = expf(row[j] - max);
  for (int c = 0; c < 64; ++c) {
    float out = 0.0f;
    for (int j = 0; j < n; ++j) out += row[j] * v[j * 64 + c];
    o[i * 64 + c] = out / sum;
  }
  free(row);
}
