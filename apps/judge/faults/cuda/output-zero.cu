// Fault: the answer is zero.
// Finding: output-zero

extern "C" __global__ void attention(const float* /*q*/, const float* /*k*/, const float* /*v*/, float* o,
                                     int n) {
  for (int e = threadIdx.x; e < 64 * 64; e += blockDim.x)
    if (blockIdx.x * 64 * 64 + e < n * 64) o[blockIdx.x * 64 * 64 + e] = 0.0f;
}
