// One problem of a bench: its inputs, where every implementation reads them, and what it costs at least.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inputs/draw.hpp"
#include "measure/memory.hpp"
#include "runmax/runmax.hpp"

namespace runmax::bench {

enum class Pass { forward, backward };

bool is_sixteen_bit(DType dtype);

// "forward" or "backward".
std::string_view pass_name(Pass pass);

// What a pass costs at least, by formulas that are printed. Backward's bytes: Q, K, V, O, dO and LSE read
// once, dQ, dK and dV written once.
double pass_flops(const Problem& problem, Pass pass);
double pass_bytes(const Problem& problem, Pass pass);
std::string_view flops_formula(Pass pass);
std::string bytes_formula(Pass pass);

// What a pass costs at least on the lengths that were drawn, over the pairs that mask and bias leave visible.
struct Work {
  double flops = 0, bytes = 0;
};

struct Workload {
  Problem problem;
  Pass pass = Pass::forward;
  inputs::HostInputs drawn;
  std::vector<float> drawn_dout;         // backward alone
  measure::Buffer q, k, v, dout;         // what was drawn, in the problem's type, in the device's memory
  std::vector<measure::Buffer> options;  // on the CPU: mask, bias, slopes, sink, page table and lengths
  Tensors tensors{};                     // on the CPU: views of all of them
  TensorView dout_view{};
  Work work;

  double flops() const { return work.flops; }
  double bytes() const { return work.bytes; }
};

// f32 without any form and without tensors of options: what peers are asked for, and what they are given.
bool is_plain(const Problem& problem);

// Draws the inputs and lays them out on the device. `ledger` must outlive them.
Result<Workload> make_workload(const Problem& problem, Pass pass, Device device,
                               measure::MemoryLedger& ledger);

}  // namespace runmax::bench
