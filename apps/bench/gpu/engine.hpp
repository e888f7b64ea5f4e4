// A kernel of this library on a GPU as a contender.
#pragma once

#include <memory>

#include "bench/contender.hpp"
#include "bench/workload.hpp"
#include "measure/gpu/gpu_clock.hpp"

namespace runmax::bench {

// Plans the workload, whose inputs lie on the GPU of `facts`. `workload`, `clock` and `ledger` must outlive
// the contender. A kernel that refuses, or memory that is not there, is the status.
Result<std::unique_ptr<GpuContender>> make_gpu_engine(const Workload& workload, const DeviceFacts& facts,
                                                      const PlanOptions& options, measure::GpuClock& clock,
                                                      measure::MemoryLedger& ledger);

}  // namespace runmax::bench
