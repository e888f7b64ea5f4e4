// Fault: a loop never ends.
// Finding: hang
extern "C" __global__ void attention(const float* q, const float* /*k*/, const float* /*v*/, float* o,
                                     int /*n*/) {
  volatile const float* watched = q;
  while (watched[0] == watched[0]) o[threadIdx.x] = watched[1];
}
