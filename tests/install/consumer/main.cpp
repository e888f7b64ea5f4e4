// Computes one attention whose answer is known by hand: scores log 3 and 0 give weights 3/4 and 1/4.
#include <cmath>
#include <cstdio>

#include "runmax/runmax.hpp"

int main() {
  const float q[1] = {1.0f};
  const float k[2] = {std::log(3.0f), 0.0f};
  const float v[2] = {8.0f, -4.0f};
  float o[1] = {NAN};
  float lse[1] = {NAN};

  using runmax::DType;
  using runmax::Layout;
  runmax::Tensors tensors;
  tensors.q = runmax::packed_view(q, DType::f32, {1, 1, 1, 1}, Layout::bhsd);
  tensors.k = runmax::packed_view(k, DType::f32, {1, 1, 2, 1}, Layout::bhsd);
  tensors.v = runmax::packed_view(v, DType::f32, {1, 1, 2, 1}, Layout::bhsd);
  tensors.o = runmax::packed_view(o, DType::f32, {1, 1, 1, 1}, Layout::bhsd);
  tensors.lse = runmax::packed_view(lse, DType::f32, {1, 1, 1, 1}, Layout::bhsd);

  const runmax::Status status = runmax::attention(tensors);
  if (!status.ok()) {
    std::printf("attention refused: %s\n", status.message().c_str());
    return 1;
  }
  const bool right = std::fabs(o[0] - 5.0f) < 1e-5f && std::fabs(lse[0] - std::log(4.0f)) < 1e-5f;
  std::printf("runmax %s: o = %.7f (5), lse = %.7f (log 4)\n", runmax::version(), static_cast<double>(o[0]),
              static_cast<double>(lse[0]));
  return right ? 0 : 1;
}
