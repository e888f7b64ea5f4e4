// A problem with options on drawn data: runs a CPU kernel and gates the answer against the reference.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/check/reference_options.hpp"
#include "inputs/draw_options.hpp"
#include "kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {

struct OptionCase {
  Problem problem;
  inputs::HostInputs in;
  inputs::HostOptions options;

  explicit OptionCase(const Problem& p) : problem(p), in(inputs::draw(p)), options(inputs::draw_options(p)) {}
  explicit OptionCase(const std::string& text) : OptionCase(problem_of(text)) {}

  static std::size_t place(const std::array<std::int64_t, 4>& shape, std::int64_t b, std::int64_t h,
                           std::int64_t i, std::int64_t j) {
    return check::OptionRows(shape, b, h).place(i, j);
  }

  reference::ScoreOptions reference_options(std::int64_t b, std::int64_t h) const {
    const Problem& p = problem;
    return check::reference_options(p, options, b, h, diagonal_offset(p.causal, p.query_len, p.kv_len));
  }

  Tensors tensors(Answer& answer) const {
    const Problem& p = problem;
    const auto view = [&](const std::vector<float>& data, std::int64_t heads, std::int64_t length,
                          std::int64_t dim) {
      return packed_view(data.data(), DType::f32, {p.batch, heads, length, dim}, Layout::bhsd);
    };
    Tensors t;
    t.q = view(in.q, p.query_heads, p.query_len, p.head_dim);
    t.k = view(in.k, p.kv_heads, p.kv_len, p.head_dim);
    t.v = view(in.v, p.kv_heads, p.kv_len, p.value_dim);
    t.o = view(answer.o, p.query_heads, p.query_len, p.value_dim);
    t.lse = view(answer.lse, p.query_heads, p.query_len, 1);
    const auto option = [](const auto& data, DType dtype, std::array<std::int64_t, 4> shape) {
      return packed_view(data.data(), dtype, shape, Layout::bhsd);
    };
    if (p.mask) t.mask = option(options.mask, DType::boolean, options.mask_shape);
    if (p.bias) t.bias = option(options.bias, DType::f32, options.bias_shape);
    if (p.alibi) t.alibi_slopes = option(options.alibi_slopes, DType::f32, {1, p.query_heads, 1, 1});
    if (p.sink) t.sink = option(options.sink, DType::f32, {1, p.query_heads, 1, 1});
    t.dropout = {options.dropout_seed, options.dropout_offset};
    return t;
  }

  // On a NaN-filled workspace of exactly the planned size and NaN-filled outputs.
  Answer run(const PlanOptions& plan_options = {}) const {
    Answer answer;
    const Problem& p = problem;
    answer.o.assign(static_cast<std::size_t>(p.batch * p.query_heads * p.query_len * p.value_dim), nan);
    answer.lse.assign(static_cast<std::size_t>(p.batch * p.query_heads * p.query_len), nan);
    const Result<Plan> planned = plan(p, cpu_with(2), plan_options);
    EXPECT_TRUE(planned.ok()) << planned.status().message();
    if (!planned.ok()) return answer;
    GuardedBytes workspace(planned.value().workspace_bytes);
    const Status status =
        runmax::run(planned.value(), tensors(answer), {workspace.data(), workspace.bytes()});
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(workspace.intact()) << "wrote beside its workspace of " << workspace.bytes() << " bytes";
    return answer;
  }

  // At most `sample` rows of each head.
  void expect_gated(const Answer& answer, std::int64_t sample = 200) const {
    testing_cpu::expect_gated(problem, in, answer, "cpu_online", sample,
                              [this](std::int64_t b, std::int64_t h) { return reference_options(b, h); });
  }
};

}  // namespace runmax::testing_cpu
