// A problem with options on drawn data: runs a CPU kernel and gates the answer against the reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gate/gate.hpp"
#include "inputs/draw_options.hpp"
#include "kernels/cpu/attention_case.hpp"
#include "runmax/dropout.hpp"

namespace runmax::testing_cpu {

struct OptionCase {
  Problem problem;
  inputs::HostInputs in;
  inputs::HostOptions options;

  explicit OptionCase(const Problem& p) : problem(p), in(inputs::draw(p)), options(inputs::draw_options(p)) {}
  explicit OptionCase(const std::string& text) : OptionCase(problem_of(text)) {}

  static std::size_t place(const std::array<std::int64_t, 4>& shape, std::int64_t b, std::int64_t h,
                           std::int64_t i, std::int64_t j) {
    const auto index = [](std::int64_t size, std::int64_t at) { return size == 1 ? 0 : at; };
    return static_cast<std::size_t>(
        ((index(shape[0], b) * shape[1] + index(shape[1], h)) * shape[2] + index(shape[2], i)) * shape[3] +
        index(shape[3], j));
  }

  reference::ScoreOptions reference_options(std::int64_t b, std::int64_t h) const {
    const Problem& p = problem;
    reference::ScoreOptions result;
    result.softcap = p.softcap;
    if (p.mask)
      result.mask = [this, b, h](std::int64_t i, std::int64_t j) {
        return options.mask[place(options.mask_shape, b, h, i, j)] != 0;
      };
    if (p.bias)
      result.bias = [this, b, h](std::int64_t i, std::int64_t j) {
        return options.bias[place(options.bias_shape, b, h, i, j)];
      };
    if (p.alibi) result.slope = options.alibi_slopes[static_cast<std::size_t>(h)];
    result.diagonal_offset = diagonal_offset(p.causal, p.query_len, p.kv_len);
    if (p.sink) result.sink = {options.sink[static_cast<std::size_t>(h)]};
    if (p.dropout != 0) {
      const PhiloxKey key = dropout_key(options.dropout_seed, options.dropout_offset, b, h);
      const std::uint32_t threshold = dropout_threshold(p.dropout);
      result.keeps = [key, threshold](std::int64_t i, std::int64_t j) {
        return dropout_keeps(key, threshold, i, j);
      };
      result.kept_factor = 1 / (1 - p.dropout);
    }
    return result;
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

  // The hostile and the LSE gate; data of ordinary size also the lesson gate. At most `sample` rows of each
  // head.
  void expect_gated(const Answer& answer, std::int64_t sample = 200) const {
    const Problem& p = problem;
    gate::HostileGate hostile(p.kv_len, gate::SequentialSum::not_allowed);
    gate::LessonGate lesson(p.kv_len);
    gate::LseGate lse;
    const auto visible = [&](std::int64_t i) {
      const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
      return reference::Keys{keys.begin, keys.end};
    };
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t h = 0; h < p.query_heads; ++h)
        reference::for_each_reference_row(
            reference_head(p, in, b, h), reference::sampled_rows(p.query_len, sample), visible, 1,
            [&](std::int64_t i, const reference::Row<double>& want) {
              const std::int64_t row = (b * p.query_heads + h) * p.query_len + i;
              hostile.add_row(b, h, i, want, answer.o.data() + row * p.value_dim, 1);
              lesson.add_row(b, h, i, want, answer.o.data() + row * p.value_dim, 1);
              lse.add(b, h, i, want, answer.lse[static_cast<std::size_t>(row)]);
            },
            reference_options(b, h));
    const std::string repeat = "runmax check " + to_text(p);
    EXPECT_TRUE(hostile.verdict().passed)
        << gate::describe(hostile.verdict(), "hostile gate", hostile.rule(), repeat);
    if (p.input == InputKind::normal || p.input == InputKind::loud || p.input == InputKind::onesign) {
      EXPECT_TRUE(lesson.verdict().passed)
          << gate::describe(lesson.verdict(), "lesson gate", lesson.rule(), repeat);
    }
    EXPECT_TRUE(lse.verdict().passed) << gate::describe(lse.verdict(), "LSE gate", lse.rule(), repeat);
  }
};

}  // namespace runmax::testing_cpu
