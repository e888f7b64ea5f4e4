// The kernel text of the right rule, instantiated once for each planted fault.
#include "mutants_launch.hpp"

#include <cuda_runtime.h>

#include "kernels/lesson/launch.hpp"
#include "kernels/lesson/online/faults.hpp"
#include "kernels/lesson/online/kernel.cuh"

namespace runmax {
namespace lesson {
namespace {

template <class Rule>
int launch_rule(const float* q, const float* k, const float* v, float* o, std::int64_t n) {
  const unsigned blocks = static_cast<unsigned>(n / OnlineConfig::rows_per_block);
  attention_online<OnlineConfig, Rule>
      <<<blocks, OnlineConfig::threads>>>(q, k, v, o, nullptr, n, default_scale, Rule());
  return cudaGetLastError();
}

}  // namespace

int launch_mutant(int fault, const float* q, const float* k, const float* v, float* o, std::int64_t n) {
  using Launch = int (*)(const float*, const float*, const float*, float*, std::int64_t);
  static constexpr Launch launches[] = {launch_rule<Fold>,
                                        launch_rule<OutputNotRescaled>,
                                        launch_rule<NothingRescaled>,
                                        launch_rule<NormalizedPerTile>,
                                        launch_rule<SumBeforeMax>,
                                        launch_rule<TileAgainstItself>,
                                        launch_rule<LastTileDropped>,
                                        launch_rule<MaxStartsAtZero>,
                                        launch_rule<DenominatorUnderflows>};
  return launches[fault](q, k, v, o, n);
}

}  // namespace lesson
}  // namespace runmax
