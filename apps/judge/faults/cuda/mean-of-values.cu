// Fault: every row is the mean of V, whatever the scores.
// Finding: mean-of-values

extern "C" __global__ void attention(const float* /*q*/, const float* /*k*/, const float* v, float* o,
                                     int n) {
  __shared__ float mean[64];
  if (threadIdx.x < 64) {
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum += v[j * 64 + threadIdx.x];
    mean[threadIdx.x] = sum / n;
  }
  __syncthreads();
  for (int e = threadIdx.x; e < 64 * 64; e += blockDim.x)
    if (blockIdx.x * 64 * 64 + e < n * 64) o[blockIdx.x * 64 * 64 + e] = mean[e % 64];
}
