// What one part of the card gives at most, measured by programs that do nothing else. Host side.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace runmax::bench {

struct Ceiling {
  std::string what;
  std::string unit;
  std::vector<double> samples;
};

// Each adds its rows.
cudaError_t measure_products(int multiprocessors, std::vector<Ceiling>& rows);
cudaError_t measure_conversions(int multiprocessors, std::vector<Ceiling>& rows);
cudaError_t measure_level2(int multiprocessors, std::vector<Ceiling>& rows);
cudaError_t measure_clusters(std::vector<Ceiling>& rows);
cudaError_t measure_accumulation(std::vector<Ceiling>& rows);

}  // namespace runmax::bench
