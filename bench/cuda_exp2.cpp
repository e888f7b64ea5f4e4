// What exponentials of a GPU cost and how far they are from the truth over [-104, 0]: those of the kernels
// beside others that they could use. One JSON object on stdout, schema "runmax.cuda_exp2".
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/cuda_exp2_kernels.hpp"
#include "lesson/statistics.hpp"
#include "measure/provenance.hpp"
#include "runmax/runmax.hpp"

namespace runmax::bench {
namespace {

constexpr float lowest = -104.0f;

int run_program() {
  const Result<DeviceFacts> gpu = device_facts({DeviceKind::cuda, 0});
  if (!gpu.ok()) {
    std::fprintf(stderr, "cuda_exp2: %s\n", gpu.status().message().c_str());
    return 4;
  }
  const Prices prices = price_exponentials(lowest, gpu.value().multiprocessors);
  if (!prices.error.empty()) {
    std::fprintf(stderr, "cuda_exp2: cuda: %s\n", prices.error.c_str());
    return 3;
  }
  nlohmann::ordered_json json{
      {"schema", "runmax.cuda_exp2"},
      {"version", 1},
      {"commit", measure::commit()},
      {"compiler", measure::compiler()},
      {"date", measure::now_utc()},
      {"machine",
       {{"name", gpu.value().name}, {"simd", "sm_" + std::to_string(gpu.value().compute_capability)}}},
      {"lowest", lowest},
      {"truth", "exp2 and exp of CUDA in double"},
      {"kernel_sources", nlohmann::ordered_json::array()},
      {"rows", nlohmann::ordered_json::array()}};
  for (const measure::KernelSources& s :
       measure::sources_of({"cuda_hopper", "cuda_cluster", "cuda_mma_m16n8k16", "cuda_simt"}))
    json["kernel_sources"].push_back({{"folder", s.folder}, {"sha256", s.sha256}});
  for (const PricedExponential& row : prices.rows) {
    const lesson::Summary rate = lesson::summarize(row.per_cycle);
    json["rows"].push_back({{"function", row.function},
                            {"computes", row.computes},
                            {"used_by", row.used_by},
                            {"arguments", row.arguments},
                            {"worst_ulp", row.worst_ulp},
                            {"worst_at", row.worst_at},
                            {"largest_flushed_to_zero", row.largest_lost},
                            {"per_cycle", rate.median},
                            {"spread", rate.spread}});
  }
  std::puts(json.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace runmax::bench

int main() { return runmax::bench::run_program(); }
