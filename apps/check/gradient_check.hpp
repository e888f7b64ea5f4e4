// What `runmax check --backward` decides: draws a problem's inputs and dO, runs forward and backward, and
// puts dQ, dK and dV before their gates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "check/host_tensor.hpp"
#include "runmax/backward.hpp"

namespace runmax::check {

struct GradientAnswer {
  Plan plan;
  HostTensor dq, dk, dv;
  HostTensor dbias{}, dsink{};  // packed; empty if the problem has no such option
  std::string trespass;         // not empty: what was written that must not be
};

// Runs a backward plan with every trap set: the outputs hold NaN, the workspace 0xFF, guard bytes lie round
// each of them, and the inputs must be as they were. `o` and `lse` are what forward gave. The outputs get the
// shape and strides of `dq`, `dk` and `dv`; their contents are not used. All become the types that the
// problem asks for. CPU only.
Result<GradientAnswer> run_backward_trapped(const Plan& plan, HostOperands in, HostTensor o, HostTensor lse,
                                            HostTensor dout, HostTensor dq, HostTensor dk, HostTensor dv);
Result<GradientAnswer> run_backward_trapped(const Plan& plan, const HostTensor& q, const HostTensor& k,
                                            const HostTensor& v, const HostTensor& o, const HostTensor& lse,
                                            const HostTensor& dout, const HostTensor& dq,
                                            const HostTensor& dk, const HostTensor& dv);

// How much of the gradients is compared.
struct GradientCoverage {
  bool whole = true;      // every row and every key; else by a sample of each head
  std::int64_t rows = 0;  // of dQ, of each query head
  std::int64_t keys = 0;  // of dK and dV, of each KV head
};

// All of it where the reference takes a few seconds; else samples. `asked` rows and keys at most, if not 0.
GradientCoverage gradient_coverage(const Problem& problem, std::int64_t asked);

// Puts finished gradients before the gates: `answers[a]` belongs to `reports[a]`. Packed inputs; `o` and
// `lse` are those that backward was given.
void judge_gradients(const Problem& problem, const inputs::HostInputs& drawn, const std::vector<float>& dout,
                     const HostTensor& o, const HostTensor& lse, const GradientCoverage& coverage,
                     int threads, const std::vector<GradientAnswer>& answers,
                     std::vector<KernelReport>& reports,
                     const std::function<void(const std::string&)>& progress);

struct GradientReport {
  Problem problem;
  DeviceFacts facts;
  std::string forward_kernel;  // whose O and LSE backward was given
  GradientCoverage coverage;
  std::vector<KernelReport> kernels;

  bool accepted() const;
};

// As check_problem.
Result<GradientReport> check_gradients(const Problem& problem, const DeviceFacts& facts,
                                       const CheckOptions& options);

std::string describe(const GradientReport& report);

}  // namespace runmax::check
