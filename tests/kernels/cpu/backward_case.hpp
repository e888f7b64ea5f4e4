// Runs forward and backward of a problem text on the CPU, and gates the gradients against their reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gate/gradient_gate.hpp"
#include "inputs/draw_dout.hpp"
#include "reference/gradient_reference.hpp"
#include "runmax/backward.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {

// Inputs of backward: those of forward, its answer, and dO. Packed (batch, heads, length, dim).
struct BackwardInputs {
  inputs::HostInputs in;
  std::vector<float> dout;
  Answer answer;
};

struct GradientAnswer {
  std::vector<float> dq, dk, dv;
};

inline bool same_bits(const GradientAnswer& a, const GradientAnswer& b) {
  return same_bits(a.dq, b.dq) && same_bits(a.dk, b.dk) && same_bits(a.dv, b.dv);
}

inline BackwardInputs backward_inputs(const Problem& p, const inputs::HostInputs& in,
                                      std::vector<float> dout) {
  return {in, std::move(dout), compute(p, in)};
}
inline BackwardInputs backward_inputs(const Problem& p) {
  return backward_inputs(p, inputs::draw(p), inputs::draw_dout(p));
}

// Plans and runs on a workspace of exactly the planned size and outputs, all full of `poison` bytes.
inline GradientAnswer gradients_of(const Problem& p, const BackwardInputs& b, const PlanOptions& options = {},
                                   unsigned char poison = 0xff) {
  GradientAnswer answer;
  const auto filled = [&](std::int64_t count) {
    float value = 0;
    std::memset(&value, poison, sizeof value);
    return std::vector<float>(static_cast<std::size_t>(count), value);
  };
  answer.dq = filled(p.batch * p.query_heads * p.query_len * p.head_dim);
  answer.dk = filled(p.batch * p.kv_heads * p.kv_len * p.head_dim);
  answer.dv = filled(p.batch * p.kv_heads * p.kv_len * p.value_dim);
  const Result<Plan> planned = plan_backward(p, cpu_with(2), options);
  EXPECT_TRUE(planned.ok()) << planned.status().message();
  if (!planned.ok()) return answer;
  const auto view = [&](const std::vector<float>& data, std::int64_t heads, std::int64_t length,
                        std::int64_t dim) {
    return packed_view(data.data(), DType::f32, {p.batch, heads, length, dim}, Layout::bhsd);
  };
  Tensors tensors;
  tensors.q = view(b.in.q, p.query_heads, p.query_len, p.head_dim);
  tensors.k = view(b.in.k, p.kv_heads, p.kv_len, p.head_dim);
  tensors.v = view(b.in.v, p.kv_heads, p.kv_len, p.value_dim);
  tensors.o = view(b.answer.o, p.query_heads, p.query_len, p.value_dim);
  tensors.lse = view(b.answer.lse, p.query_heads, p.query_len, 1);
  Gradients gradients;
  gradients.dout = view(b.dout, p.query_heads, p.query_len, p.value_dim);
  gradients.dq = view(answer.dq, p.query_heads, p.query_len, p.head_dim);
  gradients.dk = view(answer.dk, p.kv_heads, p.kv_len, p.head_dim);
  gradients.dv = view(answer.dv, p.kv_heads, p.kv_len, p.value_dim);
  GuardedBytes workspace(planned.value().workspace_bytes);
  std::memset(workspace.data(), poison, workspace.bytes());
  const Status status =
      run_backward(planned.value(), tensors, gradients, {workspace.data(), workspace.bytes()});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(workspace.intact()) << "wrote beside its workspace of " << workspace.bytes() << " bytes";
  return answer;
}

// The largest sum that enters a gradient.
inline std::int64_t gradient_terms(const Problem& p) {
  const std::int64_t group = p.kv_heads == 0 ? 1 : p.query_heads / p.kv_heads;
  return std::max(p.kv_len, group * p.query_len);
}

// Largest gate fractions of dQ, dK and dV.
struct GradientFractions {
  double dq = 0, dk = 0, dv = 0;
};

// Holds gradients to their gate, all of them.
inline GradientFractions expect_gradients_gated(const Problem& p, const BackwardInputs& b,
                                                const GradientAnswer& got) {
  gate::GradientGate dq("dq", gradient_terms(p)), dk("dk", gradient_terms(p)), dv("dv", gradient_terms(p));
  const std::int64_t group = p.kv_heads == 0 ? 1 : p.query_heads / p.kv_heads;
  for (std::int64_t n = 0; n < p.batch; ++n)
    for (std::int64_t kv = 0; kv < p.kv_heads; ++kv) {
      reference::KeyGradients<double> of_keys(p.kv_len, p.head_dim, p.value_dim);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const reference::Head<float> head = reference_head(p, b.in, n, h);
        reference::GradientReference<double> reference(head);
        const std::int64_t first = (n * p.query_heads + h) * p.query_len;
        const reference::Matrix<float> dout{b.dout.data() + first * p.value_dim, p.value_dim, 1};
        for (std::int64_t i = 0; i < p.query_len; ++i) {
          const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
          reference::RowGradient<double> row;
          reference.row(head, dout, i, {keys.begin, keys.end}, row, &of_keys);
          dq.add_row(n, h, i, row, got.dq.data() + (first + i) * p.head_dim, 1);
        }
      }
      for (std::int64_t j = 0; j < p.kv_len; ++j) {
        const std::int64_t at = (n * p.kv_heads + kv) * p.kv_len + j;
        const auto own = static_cast<std::size_t>(j);
        const auto head_dim = static_cast<std::size_t>(p.head_dim),
                   value_dim = static_cast<std::size_t>(p.value_dim);
        dk.add_key(n, kv, j, of_keys.dk, of_keys.dk_magnitude, of_keys.dk_score_magnitude, own * head_dim,
                   head_dim, got.dk.data() + at * p.head_dim, 1);
        dv.add_key(n, kv, j, of_keys.dv, of_keys.dv_magnitude, of_keys.dv_score_magnitude, own * value_dim,
                   value_dim, got.dv.data() + at * p.value_dim, 1);
      }
    }
  const std::string repeat = "runmax check " + to_text(p) + " --backward";
  for (const gate::GradientGate* gate : {&dq, &dk, &dv}) {
    const gate::Verdict verdict = gate->verdict();
    if (verdict.compared == 0) continue;  // an empty gradient
    EXPECT_TRUE(verdict.passed) << gate::describe(verdict, gate->tensor(), gate->rule(), repeat);
  }
  return {dq.verdict().gate_fraction, dk.verdict().gate_fraction, dv.verdict().gate_fraction};
}

}  // namespace runmax::testing_cpu
