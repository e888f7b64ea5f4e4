// Measures what the parts of an sm_90 card give, as the kernels use them: one JSON object on stdout, schema
// "runmax.ceilings".
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/ceilings/ceilings.hpp"
#include "lesson/statistics.hpp"
#include "measure/provenance.hpp"
#include "runmax/runmax.hpp"

namespace runmax::bench {
namespace {

int run_program() {
  const Result<DeviceFacts> gpu = device_facts({DeviceKind::cuda, 0});
  if (!gpu.ok() || gpu.value().compute_capability != 90) {
    std::fprintf(stderr, "cuda_ceilings: needs compute capability 90: %s\n",
                 gpu.ok() ? gpu.value().name.c_str() : gpu.status().message().c_str());
    return 4;
  }
  const int multiprocessors = gpu.value().multiprocessors;
  std::vector<Ceiling> rows;
  cudaError_t error = measure_products(multiprocessors, rows);
  if (error == cudaSuccess) error = measure_conversions(multiprocessors, rows);
  if (error == cudaSuccess) error = measure_level2(multiprocessors, rows);
  if (error == cudaSuccess) error = measure_clusters(rows);
  if (error == cudaSuccess) error = measure_accumulation(rows);

  nlohmann::ordered_json json{
      {"schema", "runmax.ceilings"},
      {"version", 1},
      {"commit", measure::commit()},
      {"compiler", measure::compiler()},
      {"date", measure::now_utc()},
      {"machine",
       {{"name", gpu.value().name}, {"simd", "sm_" + std::to_string(gpu.value().compute_capability)}}},
      {"kernel_sources", nlohmann::ordered_json::array()},
      {"rows", nlohmann::ordered_json::array()}};
  for (const measure::KernelSources& s : measure::sources_of({"cuda_hopper"}))
    json["kernel_sources"].push_back({{"folder", s.folder}, {"sha256", s.sha256}});
  for (const Ceiling& row : rows) {
    const lesson::Summary value = lesson::summarize(row.samples);
    json["rows"].push_back(
        {{"what", row.what}, {"value", value.median}, {"unit", row.unit}, {"spread", value.spread}});
  }
  std::puts(json.dump(2).c_str());
  if (error == cudaSuccess) return 0;
  std::fprintf(stderr, "cuda_ceilings: cuda: %s after \"%s\"\n", cudaGetErrorString(error),
               rows.empty() ? "" : rows.back().what.c_str());
  return 3;
}

}  // namespace
}  // namespace runmax::bench

int main() { return runmax::bench::run_program(); }
