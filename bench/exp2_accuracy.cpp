// How far exponentials are from the truth over [-104, 0], and what one costs: the engine's on every
// instruction set of this processor, beside those of libm, libmvec and SLEEF. One JSON object on stdout,
// schema "runmax.exp2".
//
// The truth is MPFR's, for 2^x, for e^x, and for 2^(s x) with s the float nearest to log2(e), which is what
// the engine computes in place of e^x: the product is exact here.
#include <hwy/targets.h>
#include <mpfr.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/engine_exp2.hpp"
#include "bench/vector_exp.hpp"
#include "lesson/statistics.hpp"
#include "measure/provenance.hpp"
#include "runmax/runmax.hpp"

namespace runmax::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr float log2_e = 1.44269504f;
constexpr float lowest = -104.0f;
// Every so many-th float; a prime, so that no pattern of the last bits is left out.
constexpr std::uint32_t stride = 211;

// Every 211th float of [lowest, -2^-26], in descending order; nearer to 0 every function gives 1.
std::vector<float> arguments(float lowest_argument) {
  std::vector<float> list;
  const float nearest = -0x1p-26f;
  std::uint32_t first = 0, last = 0;
  std::memcpy(&first, &nearest, sizeof first);
  std::memcpy(&last, &lowest_argument, sizeof last);
  for (std::uint32_t bits = first; bits <= last; bits += stride) {
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    list.push_back(x);
  }
  while (list.size() % 64 != 0) list.push_back(lowest_argument);
  return list;
}

enum class Function { exp2, exp, exp2_of_product };

// To 53 bits: a float's ulp is 2^29 times that.
std::vector<double> truth(const std::vector<float>& x, Function function) {
  std::vector<double> values;
  values.reserve(x.size());
  mpfr_t argument, value;
  mpfr_init2(argument, 128);
  mpfr_init2(value, 128);
  for (const float one : x) {
    mpfr_set_flt(argument, one, MPFR_RNDN);
    if (function == Function::exp2_of_product)
      mpfr_mul_d(argument, argument, static_cast<double>(log2_e), MPFR_RNDN);
    if (function == Function::exp)
      mpfr_exp(value, argument, MPFR_RNDN);
    else
      mpfr_exp2(value, argument, MPFR_RNDN);
    values.push_back(mpfr_get_d(value, MPFR_RNDN));
  }
  mpfr_clear(argument);
  mpfr_clear(value);
  return values;
}

struct Accuracy {
  double worst_ulp = 0;  // where the truth is a normal float
  float worst_at = 0;
  double largest_lost = 0;  // the largest truth for which the answer is 0
};

Accuracy accuracy_of(const std::vector<float>& x, const std::vector<float>& got,
                     const std::vector<double>& want) {
  Accuracy accuracy;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (got[i] == 0.0f) accuracy.largest_lost = std::max(accuracy.largest_lost, want[i]);
    if (want[i] < 0x1p-126 || got[i] == 0.0f) continue;
    const double ulp = std::ldexp(1.0, std::ilogb(want[i]) - 23);
    const double error = std::abs(static_cast<double>(got[i]) - want[i]) / ulp;
    // Written so that a NaN is the worst.
    if (!(error <= accuracy.worst_ulp)) accuracy.worst_ulp = error, accuracy.worst_at = x[i];
  }
  return accuracy;
}

template <class Run>
lesson::Summary cost_of(Run run) {
  constexpr std::size_t count = 2048;  // in and out together are half of a first-level cache
  constexpr int pieces = 60;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(lowest, 0.0f);
  std::vector<float> x(count), y(count);
  for (float& one : x) one = uniform(random);
  using Clock = std::chrono::steady_clock;
  std::vector<double> samples;
  for (int piece = 0; piece < pieces; ++piece) {
    const Clock::time_point begin = Clock::now();
    constexpr int rounds = 40;
    for (int round = 0; round < rounds; ++round) {
      run(x.data(), y.data(), count);
      asm volatile("" : : "r"(y.data()) : "memory");
    }
    const std::chrono::duration<double, std::nano> time = Clock::now() - begin;
    samples.push_back(time.count() / rounds / count);
  }
  return lesson::summarize(std::move(samples));
}

template <class Run>
Json row(const std::string& who, const std::string& target, const std::string& computes,
         const std::vector<float>& x, const std::vector<double>& want, Run run) {
  std::fprintf(stderr, "%s %s\n", who.c_str(), target.c_str());
  std::vector<float> got(x.size(), -1.0f);
  run(x.data(), got.data(), x.size());
  const Accuracy accuracy = accuracy_of(x, got, want);
  const lesson::Summary cost = cost_of(run);
  return {{"function", who},
          {"target", target},
          {"computes", computes},
          {"worst_ulp", accuracy.worst_ulp},
          {"worst_at", accuracy.worst_at},
          {"largest_flushed_to_zero", accuracy.largest_lost},
          {"ns_per_element", cost.median},
          {"spread", cost.spread}};
}

int run_program() {
  const std::vector<float> x = arguments(lowest), x2 = arguments(lowest * log2_e);
  std::fprintf(stderr, "MPFR over %zu arguments\n", x.size());
  const std::vector<double> exp = truth(x, Function::exp), exp2 = truth(x2, Function::exp2),
                            product = truth(x, Function::exp2_of_product);
  Json rows = Json::array();
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const std::string name = hwy::TargetName(target);
    rows.push_back(
        row("engine, scale 1", name, "2^x", x2, exp2,
            [](const float* in, float* out, std::size_t count) { engine_exp2(in, 1.0f, out, count); }));
    rows.push_back(
        row("engine, scale s", name, "2^(s x)", x, product,
            [](const float* in, float* out, std::size_t count) { engine_exp2(in, log2_e, out, count); }));
  }
  hwy::SetSupportedTargetsForTest(0);
  const std::int64_t supported = hwy::SupportedTargets();
  struct Set {
    const char* name;
    std::int64_t target;
    const VectorExp& (*functions)();
  };
  for (const Set& set : {Set{"AVX-512", HWY_AVX3, vector_exp_avx512}, Set{"AVX2", HWY_AVX2, vector_exp_avx2},
                         Set{"SSE4", HWY_SSE4, vector_exp_sse4}}) {
    if ((supported & set.target) == 0) continue;
    const VectorExp& f = set.functions();
    rows.push_back(row("SLEEF exp2f u10", set.name, "2^x", x2, exp2, f.sleef_exp2));
    rows.push_back(row("SLEEF exp2f u35", set.name, "2^x", x2, exp2, f.sleef_exp2_u35));
    rows.push_back(row("SLEEF expf u10", set.name, "e^x", x, exp, f.sleef_exp));
    rows.push_back(row("libmvec expf", set.name, "e^x", x, exp, f.mvec_exp));
  }
  rows.push_back(
      row("libm exp2f", "one at a time", "2^x", x2, exp2, [](const float* in, float* out, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) out[i] = std::exp2(in[i]);
      }));
  rows.push_back(
      row("libm expf", "one at a time", "e^x", x, exp, [](const float* in, float* out, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) out[i] = std::exp(in[i]);
      }));

  const Result<DeviceFacts> cpu = device_facts({DeviceKind::cpu, 0});
  Json json{
      {"schema", "runmax.exp2"},
      {"version", 1},
      {"commit", measure::commit()},
      {"compiler", measure::compiler()},
      {"date", measure::now_utc()},
      {"machine", {{"name", cpu.ok() ? cpu.value().name : ""}, {"simd", cpu.ok() ? cpu.value().simd : ""}}},
      {"lowest", lowest},
      {"arguments", x.size()},
      {"truth", std::string("MPFR ") + mpfr_get_version()},
      {"kernel_sources", Json::array()},
      {"rows", rows}};
  for (const measure::KernelSources& s : measure::sources_of({"cpu_online"}))
    json["kernel_sources"].push_back({{"folder", s.folder}, {"sha256", s.sha256}});
  std::puts(json.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace runmax::bench

int main() { return runmax::bench::run_program(); }
