// A kernel of this library as a contender.
#pragma once

#include <memory>

#include "bench/contender.hpp"
#include "bench/workload.hpp"

namespace runmax::bench {

// Plans the workload on the CPU. `workload` and `ledger` must outlive the contender. A kernel that refuses,
// or memory that is not there, is the status.
Result<std::unique_ptr<Contender>> make_engine(const Workload& workload, const DeviceFacts& facts,
                                               const PlanOptions& options, measure::MemoryLedger& ledger);

}  // namespace runmax::bench
