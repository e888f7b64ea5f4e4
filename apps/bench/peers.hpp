// Other people's attention as contenders: a program that is told over a pipe what to compute, on the same
// inputs in shared memory. docs/bench.md describes the protocol.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/contender.hpp"
#include "bench/gpu/session.hpp"
#include "bench/session.hpp"
#include "bench/workload.hpp"

namespace runmax::bench {

class PeerProgram;

// Starts `command` by the shell; it runs until the last copy of the pointer is gone. `simd` is the
// instruction set that peers are asked to keep to, or empty. environment errors: it does not start, or says
// something else than the protocol's hello.
Result<std::shared_ptr<PeerProgram>> start_peers(const std::string& command, const std::string& simd);

// The peers that serve a workload, on each number of threads, and why the others do not.
Result<Others> peers_for(const std::shared_ptr<PeerProgram>& program, const Workload& workload,
                         const std::vector<int>& threads);

// The same on a GPU.
Result<GpuOthers> gpu_peers_for(const std::shared_ptr<PeerProgram>& program, const Workload& workload);

}  // namespace runmax::bench
