// The register tiles live in registers: a compiler that leaves them in memory loses two thirds of the speed
// and no other test would notice.
#include <hwy/targets.h>
#include <immintrin.h>
#include <time.h>

#include <algorithm>

#include "kernels/forward/cpu/config.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Takes the chains' result, so that they are computed.
volatile float result = 0;

// Twelve independent chains: enough for two pipes of four cycles' latency.
constexpr int chains = 12;
constexpr std::int64_t rounds = 40000;

__attribute__((target("avx512f"), noinline)) float chains_of_512_bits() {
  __m512 sum[chains];
  for (__m512& s : sum) s = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = _mm512_fmadd_ps(sum[c], a, b);
  }
  __m512 all = sum[0];
#pragma GCC unroll 12
  for (int c = 1; c < chains; ++c) all = _mm512_add_ps(all, sum[c]);
  float lanes[16];
  _mm512_storeu_ps(lanes, all);
  return lanes[0];
}

__attribute__((target("avx2,fma"), noinline)) float chains_of_256_bits() {
  __m256 sum[chains];
  for (__m256& s : sum) s = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = _mm256_fmadd_ps(sum[c], a, b);
  }
  __m256 all = sum[0];
#pragma GCC unroll 12
  for (int c = 1; c < chains; ++c) all = _mm256_add_ps(all, sum[c]);
  return _mm256_cvtss_f32(all);
}

class CpuSpeed : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam()); }
  void TearDown() override { cpu::force_tile_target(0); }
};

TEST_P(CpuSpeed, RegisterTilesReachMoreThanHalfOfTheMultiplyAddPeak) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "instrumented or unoptimised code";
#endif
  const std::int64_t lanes = cpu::tile_functions().lanes;
  if (lanes < 8) GTEST_SKIP() << "no fused multiply-add on " << hwy::TargetName(GetParam());
  constexpr std::int64_t rows = 48, keys = 512, dim = 64;
  std::vector<float> q(rows * dim, 0.5f), k(keys * dim + 16, 0.25f), v(keys * dim + 16, 0.125f),
      out(rows * dim), scores(rows * cpu::score_stride), lane_max(rows * 16);
  const std::vector<cpu::TileKeys> all(rows, {0, keys});
  cpu::ScoreTile score_tile;
  score_tile.q = q.data();
  score_tile.k = k.data();
  score_tile.head_dim = dim;
  score_tile.rows = rows;
  score_tile.keys = all.data();
  score_tile.scores = scores.data();
  score_tile.scores_stride = cpu::score_stride;
  score_tile.lane_max = lane_max.data();
  cpu::ValueTile value_tile;
  value_tile.weights = scores.data();
  value_tile.weights_stride = cpu::score_stride;
  value_tile.v = {v.data(), 0, dim, dim};
  value_tile.padded_value_dim = dim;
  value_tile.rows = rows;
  value_tile.keys = all.data();
  value_tile.out = out.data();

  double peak = 0, of_scores = 0, of_values = 0;
  // The best of many short runs: a shared machine interrupts the others.
  for (int run = 0; run < 60; ++run) {
    const double start = thread_seconds();
    result = lanes == 16 ? chains_of_512_bits() : chains_of_256_bits();
    const double after_peak = thread_seconds();
    cpu::tile_functions().scores(score_tile);
    const double after_scores = thread_seconds();
    cpu::tile_functions().values(value_tile);
    const double end = thread_seconds();
    peak = std::max(peak, static_cast<double>(chains * lanes * rounds) / (after_peak - start));
    of_scores = std::max(of_scores, static_cast<double>(rows * keys * dim) / (after_scores - after_peak));
    of_values = std::max(of_values, static_cast<double>(rows * keys * dim) / (end - after_scores));
  }
  EXPECT_GE(of_scores / peak, 0.5) << "scores on " << hwy::TargetName(GetParam());
  EXPECT_GE(of_values / peak, 0.5) << "values on " << hwy::TargetName(GetParam());
  RecordProperty("share_of_scores", std::to_string(of_scores / peak));
  RecordProperty("share_of_values", std::to_string(of_values / peak));
}

std::string target_name(const ::testing::TestParamInfo<std::int64_t>& test) {
  return hwy::TargetName(test.param);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuSpeed, ::testing::ValuesIn(cpu::tile_targets()), target_name);

}  // namespace
}  // namespace runmax::testing_cpu
