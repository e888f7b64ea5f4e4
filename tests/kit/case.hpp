// The frame of a case: one test for each kernel of the registry, on hand-made data with a known answer.
//
// A kernel that does not serve a case's problem is skipped with its reason, unless it is one that plan
// chooses by itself: those must serve every case of their device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "check/runner.hpp"
#include "registry/registry.hpp"
#include "runmax/runmax.hpp"

namespace runmax::kit {

using check::Answer;
using check::HostTensor;
using check::packed_tensor;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

inline Problem problem(const std::string& text) {
  Result<Problem> parsed = parse_problem(text);
  if (parsed.ok()) return parsed.value();
  ADD_FAILURE() << text << ": " << parsed.status().message();
  return {};
}

// Every element the same.
inline HostTensor constant(std::array<std::int64_t, 4> shape, float value) {
  HostTensor tensor = packed_tensor(shape);
  std::fill(tensor.storage.begin(), tensor.storage.end(), value);
  return tensor;
}

// (1, 1, values.size(), dim): row j holds values[j] in every channel.
inline HostTensor rows(const std::vector<float>& values, std::int64_t dim = 1) {
  HostTensor tensor = packed_tensor({1, 1, static_cast<std::int64_t>(values.size()), dim});
  for (std::size_t j = 0; j < values.size(); ++j)
    for (std::int64_t c = 0; c < dim; ++c) tensor.at(0, 0, static_cast<std::int64_t>(j), c) = values[j];
  return tensor;
}

// Row j holds j in every channel.
inline HostTensor row_indices(std::array<std::int64_t, 4> shape) {
  HostTensor tensor = packed_tensor(shape);
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t j = 0; j < shape[2]; ++j)
        for (std::int64_t c = 0; c < shape[3]; ++c) tensor.at(b, h, j, c) = static_cast<float>(j);
  return tensor;
}

// The shapes of a problem's tensors; those of K and V if it is not paged.
inline std::array<std::int64_t, 4> rows_shape(const Problem& p, std::int64_t heads,
                                              std::int64_t SequenceLengths::*length,
                                              std::int64_t dense_length, std::int64_t dim) {
  if (p.varlen.empty()) return {p.batch, heads, dense_length, dim};
  std::int64_t rows = 0;
  for (const SequenceLengths& lengths : p.varlen) rows += lengths.*length;
  return {1, heads, rows, dim};
}
inline std::array<std::int64_t, 4> q_shape(const Problem& p) {
  return rows_shape(p, p.query_heads, &SequenceLengths::query_len, p.query_len, p.head_dim);
}
inline std::array<std::int64_t, 4> k_shape(const Problem& p) {
  return rows_shape(p, p.kv_heads, &SequenceLengths::kv_len, p.kv_len, p.head_dim);
}
inline std::array<std::int64_t, 4> v_shape(const Problem& p) {
  return rows_shape(p, p.kv_heads, &SequenceLengths::kv_len, p.kv_len, p.value_dim);
}
inline std::array<std::int64_t, 4> o_shape(const Problem& p) {
  return rows_shape(p, p.query_heads, &SequenceLengths::query_len, p.query_len, p.value_dim);
}
inline std::array<std::int64_t, 4> lse_shape(const Problem& p) {
  return rows_shape(p, p.query_heads, &SequenceLengths::query_len, p.query_len, 1);
}

// Q and K zero, V as given.
using Operands = check::HostOperands;
inline Operands equal_scores(const Problem& p, HostTensor v) {
  return {constant(q_shape(p), 0), constant(k_shape(p), 0), std::move(v)};
}
inline Operands mean_index(const Problem& p) { return equal_scores(p, row_indices(v_shape(p))); }

// The parameter: a kernel of the registry.
class Case : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    entry_ = find_kernel(GetParam());
    ASSERT_NE(entry_, nullptr);
    if (!entry_->built) GTEST_SKIP() << GetParam() << ": this library was built without CUDA (no nvcc)";
    const Result<DeviceFacts> facts = device_facts({entry_->device, 0});
    if (!facts.ok()) GTEST_SKIP() << GetParam() << ": " << facts.status().message();
    facts_ = facts.value();
  }

  const DeviceFacts& facts() const { return facts_; }
  bool on_cpu() const { return entry_->device == DeviceKind::cpu; }
  // A kernel that plan chooses by itself, as opposed to a baseline.
  bool is_engine() const { return entry_->choice == Choice::automatic; }
  bool serves_f32() const { return entry_->serves.f32; }

  PlanOptions options() const { return {.kernel = GetParam()}; }

  // Runs on this kernel. Nothing if it refuses, which fails the test only if no other kernel of the engine
  // steps in.
  std::optional<Answer> run(const Problem& p, const Operands& in, const PlanOptions& plan_options,
                            const HostTensor& o, const HostTensor& lse) {
    Result<Answer> answer = check::run_kernel(p, facts_, plan_options, in, o, lse);
    if (!answer.ok()) {
      const bool refused = answer.status().code() == StatusCode::unsupported;
      // No CUDA kernel serves every type and form.
      const bool unserved = !on_cpu() && first_unserved(p, entry_->serves).has_value();
      EXPECT_TRUE(refused && (!is_engine() || unserved || plan(p, facts_).ok()))
          << to_text(p) << ": " << answer.status().message();
      refusals_ += (refusals_.empty() ? "" : "; ") + answer.status().message();
      return std::nullopt;
    }
    EXPECT_EQ(answer.value().trespass, "") << to_text(p);
    ++ran_;
    return std::move(answer).value();
  }
  std::optional<Answer> run(const Problem& p, const HostTensor& q, const HostTensor& k, const HostTensor& v,
                            const PlanOptions& plan_options, const HostTensor& o, const HostTensor& lse) {
    return run(p, Operands{q, k, v}, plan_options, o, lse);
  }
  std::optional<Answer> run(const Problem& p, const Operands& in, const PlanOptions& plan_options) {
    return run(p, in, plan_options, packed_tensor(o_shape(p)), packed_tensor(lse_shape(p)));
  }
  std::optional<Answer> run(const Problem& p, const HostTensor& q, const HostTensor& k, const HostTensor& v,
                            const PlanOptions& plan_options) {
    return run(p, Operands{q, k, v}, plan_options);
  }
  std::optional<Answer> run(const Problem& p, const HostTensor& q, const HostTensor& k, const HostTensor& v) {
    return run(p, Operands{q, k, v}, options());
  }
  std::optional<Answer> run(const Problem& p, const Operands& in) { return run(p, in, options()); }

  // A case whose every problem was refused is reported as skipped, with the reasons.
  void TearDown() override {
    if (ran_ == 0 && !refusals_.empty() && !HasFailure()) GTEST_SKIP() << refusals_;
  }

 private:
  const KernelEntry* entry_ = nullptr;
  DeviceFacts facts_;
  int ran_ = 0;
  std::string refusals_;
};

// The tolerance of a case as a share of max |V|.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 8e-3;
    case DType::f64:
      return 1e-13;
    default:
      return 5e-6;
  }
}

// Every channel of one output row. `largest_value` is max |V|.
inline void expect_row(const Answer& answer, std::int64_t b, std::int64_t h, std::int64_t i, double want,
                       double largest_value) {
  for (std::int64_t c = 0; c < answer.o.shape[3]; ++c) {
    const double got = answer.o.value(b, h, i, c);
    ASSERT_LE(std::abs(got - want), tolerance(answer.plan.problem.dtype) * largest_value)
        << answer.plan.kernel << " on " << to_text(answer.plan.problem) << ": o[" << b << "," << h << "," << i
        << "," << c << "] got " << got << " want " << want;
    ASSERT_TRUE(std::isfinite(got));
  }
}

// 1e-5 absolute or 2e-6 relative, whichever is larger; -inf exactly.
inline void expect_lse(const Answer& answer, std::int64_t b, std::int64_t h, std::int64_t i, double want) {
  const double got = answer.lse.at(b, h, i);
  const bool good =
      std::isinf(want) ? got == want : std::abs(got - want) <= std::max(1e-5, 2e-6 * std::abs(want));
  ASSERT_TRUE(good) << answer.plan.kernel << " on " << to_text(answer.plan.problem) << ": lse[" << b << ","
                    << h << "," << i << "] got " << got << " want " << want;
}

// A row that sees no key.
inline void expect_empty_row(const Answer& answer, std::int64_t b, std::int64_t h, std::int64_t i) {
  for (std::int64_t c = 0; c < answer.o.shape[3]; ++c)
    ASSERT_EQ(answer.o.at(b, h, i, c), 0.0f)
        << answer.plan.kernel << " on " << to_text(answer.plan.problem) << ": row " << i;
  expect_lse(answer, b, h, i, -infinity);
}

// All rows the same.
inline void expect_all(const Answer& answer, double want_o, double largest_value, double want_lse) {
  for (std::int64_t b = 0; b < answer.o.shape[0]; ++b)
    for (std::int64_t h = 0; h < answer.o.shape[1]; ++h)
      for (std::int64_t i = 0; i < answer.o.shape[2]; ++i) {
        expect_row(answer, b, h, i, want_o, largest_value);
        expect_lse(answer, b, h, i, want_lse);
        if (::testing::Test::HasFatalFailure()) return;
      }
}

// No kernel of any device may accept the problem, and the reason must hold `named`.
inline void expect_refused_by_all(const std::string& text, const std::string& named) {
  const Problem p = problem(text);
  for (const KernelEntry& kernel : kernels()) {
    DeviceFacts facts;
    facts.device.kind = kernel.device;
    facts.compute_capability = 90;
    const std::optional<std::string> reason = first_unserved(p, kernel.serves);
    ASSERT_TRUE(reason.has_value()) << kernel.name << " accepts " << text << " at " << named;
    EXPECT_NE(reason->find(named), std::string::npos)
        << kernel.name << " refuses " << text << " without naming " << named << ": " << *reason;
    // The kernel's own refusal comes first only where it was not built.
    const std::optional<std::string> planned = refusal(kernel, p, facts, {});
    ASSERT_TRUE(planned.has_value()) << kernel.name;
  }
  const Result<DeviceFacts> cpu = device_facts({DeviceKind::cpu, 0});
  const Result<Plan> planned = plan(p, cpu.value(), {});
  ASSERT_FALSE(planned.ok());
  EXPECT_EQ(planned.status().code(), StatusCode::unsupported);
  EXPECT_NE(planned.status().message().find(named + " is not served"), std::string::npos)
      << planned.status().message();
}

inline std::vector<std::string> all_kernels() {
  std::vector<std::string> names;
  for (const KernelEntry& kernel : kernels()) names.emplace_back(kernel.name);
  return names;
}

inline std::string kernel_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

// Stands once in each file of cases. Names are cpu_... and cuda_...; tests/cases/CMakeLists.txt labels them.
#define RUNMAX_CASES_ON_ALL_KERNELS() \
  INSTANTIATE_TEST_SUITE_P(On, Case, ::testing::ValuesIn(all_kernels()), kernel_name)

}  // namespace runmax::kit
