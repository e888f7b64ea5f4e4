// The lesson's online kernel with one planted fault, and baselines that nobody would ship, on either device.
#pragma once

#include <cstdint>

#include "kernels/lesson/online/faults.hpp"
#include "lab/bench.hpp"

namespace runmax::lab {

enum class Fault {
  none,
  output_not_rescaled,
  tile_against_itself,
  normalized_per_tile,
  sum_before_max,
  underflow
};

// Calls run(rule) with the rule object of the fault.
template <class Run>
auto with_rule(Fault fault, Run run) {
  switch (fault) {
    case Fault::output_not_rescaled:
      return run(lesson::OutputNotRescaled());
    case Fault::tile_against_itself:
      return run(lesson::TileAgainstItself());
    case Fault::normalized_per_tile:
      return run(lesson::NormalizedPerTile());
    case Fault::sum_before_max:
      return run(lesson::SumBeforeMax());
    case Fault::underflow:
      return run(lesson::DenominatorUnderflows());
    case Fault::none:
      break;
  }
  return run(lesson::Fold());
}

// One head in the device's memory: packed (n, head_dim), n a multiple of 64.
struct HeadBuffers {
  std::int64_t n = 0;
  const Buffer *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
};

// Enqueue on the stream (on the CPU: run on `threads` threads).
Status cpu_faulty_online(Fault fault, const HeadBuffers& head, int threads);
Status cuda_faulty_online(Fault fault, const HeadBuffers& head, Stream stream);

// Naive whose scores are one plain dot product each, no tile. `matrices` holds 2 * n * n floats on a GPU, n *
// n on the CPU.
Status cpu_untiled_naive(const HeadBuffers& head, const Buffer& matrices, int threads);
Status cuda_untiled_naive(const HeadBuffers& head, const Buffer& matrices, Stream stream);

// The online kernel whose key tile has no padding float, so that 32 lanes share one bank.
Status cuda_unpadded_online(const HeadBuffers& head, Stream stream);

}  // namespace runmax::lab
