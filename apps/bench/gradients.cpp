#include "bench/gradients.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "gate/gradient_gate.hpp"
#include "reference/gradient_reference.hpp"

namespace runmax::bench {
namespace {

// Multiply-adds that the reference may spend: a few seconds.
constexpr double reference_budget = 6e9;

void take(const gate::Verdict& verdict, const char* tensor, GradientVerdict& into) {
  if (verdict.compared == 0) return;
  into.gate_fraction = std::max(into.gate_fraction, verdict.gate_fraction);
  if (verdict.passed || !into.passed) return;
  into.passed = false;
  const gate::Offender& o = verdict.offender;
  into.reason = fmt::format("gradient gate failed: {}[{},{},{},{}] got {:.9g} want {:.9g} bound {:.3e}",
                            tensor, o.batch, o.head, o.row, o.dim, o.got, o.want, o.bound);
}

}  // namespace

std::vector<GradientVerdict> judge_gradients(const Workload& workload, const std::vector<Output>& outputs,
                                             int threads) {
  const Problem& p = workload.problem;
  const std::int64_t group = p.kv_heads == 0 ? 1 : p.query_heads / p.kv_heads, all = p.batch * p.kv_heads;
  const double of_head = static_cast<double>(group) * static_cast<double>(p.query_len) *
                         static_cast<double>(p.kv_len) *
                         static_cast<double>(3 * p.head_dim + 2 * p.value_dim);
  const std::int64_t count =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(reference_budget / std::max(of_head, 1.0)), 1,
                               std::max<std::int64_t>(all, 1));
  std::vector<GradientVerdict> verdicts(outputs.size());
  std::mutex mutex;
  std::atomic<std::int64_t> next{0};
  const auto one_head = [&](std::int64_t place) {
    const std::int64_t batch = place / p.kv_heads, kv = place % p.kv_heads;
    const std::int64_t terms = std::max(p.kv_len, group * p.query_len);
    std::vector<gate::GradientGate> dq(outputs.size(), gate::GradientGate("dq", terms)),
        dk(outputs.size(), gate::GradientGate("dk", terms)),
        dv(outputs.size(), gate::GradientGate("dv", terms));
    reference::KeyGradients<double> of_keys(p.kv_len, p.head_dim, p.value_dim);
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      const std::int64_t first = (batch * p.query_heads + h) * p.query_len, key = place * p.kv_len;
      const reference::Head<float> head{{workload.drawn.q.data() + first * p.head_dim, p.head_dim, 1},
                                        {workload.drawn.k.data() + key * p.head_dim, p.head_dim, 1},
                                        {workload.drawn.v.data() + key * p.value_dim, p.value_dim, 1},
                                        p.query_len,
                                        p.kv_len,
                                        p.head_dim,
                                        p.value_dim,
                                        effective_scale(p)};
      const reference::Matrix<float> dout{workload.drawn_dout.data() + first * p.value_dim, p.value_dim, 1};
      reference::GradientReference<double> reference(head);
      reference::RowGradient<double> row;
      for (std::int64_t i = 0; i < p.query_len; ++i) {
        const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
        reference.row(head, dout, i, {keys.begin, keys.end}, row, &of_keys);
        for (std::size_t o = 0; o < outputs.size(); ++o)
          dq[o].add_row(batch, h, i, row, outputs[o].dq.data() + (first + i) * p.head_dim, 1);
      }
    }
    const auto head_dim = static_cast<std::size_t>(p.head_dim),
               value_dim = static_cast<std::size_t>(p.value_dim);
    for (std::int64_t j = 0; j < p.kv_len; ++j) {
      const auto own = static_cast<std::size_t>(j);
      const std::int64_t at = place * p.kv_len + j;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        dk[o].add_key(batch, kv, j, of_keys.dk, of_keys.dk_magnitude, of_keys.dk_score_magnitude,
                      own * head_dim, head_dim, outputs[o].dk.data() + at * p.head_dim, 1);
        dv[o].add_key(batch, kv, j, of_keys.dv, of_keys.dv_magnitude, of_keys.dv_score_magnitude,
                      own * value_dim, value_dim, outputs[o].dv.data() + at * p.value_dim, 1);
      }
    }
    const std::lock_guard lock(mutex);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      take(dq[o].verdict(), "dq", verdicts[o]);
      take(dk[o].verdict(), "dk", verdicts[o]);
      take(dv[o].verdict(), "dv", verdicts[o]);
    }
  };
  const auto work = [&] {
    // Spread over all heads, the first and the last among them.
    for (std::int64_t n = next++; n < count; n = next++)
      one_head(count == 1 ? 0 : n * (all - 1) / (count - 1));
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  return verdicts;
}

}  // namespace runmax::bench
