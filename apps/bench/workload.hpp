// One problem of a bench: its inputs, where every implementation reads them, and what it costs at least.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inputs/draw.hpp"
#include "measure/memory.hpp"
#include "runmax/runmax.hpp"

namespace runmax::bench {

struct Workload {
  Problem problem;
  inputs::HostInputs drawn;
  measure::Buffer q, k, v;  // what `drawn` holds, at cache-line boundaries

  double flops() const { return forward_flops(problem); }
  double bytes() const { return minimum_bytes(problem); }
};

// Draws and lays out the inputs. `ledger` must outlive them.
Result<Workload> make_workload(const Problem& problem, measure::MemoryLedger& ledger);

}  // namespace runmax::bench
