#include "check/double_judge.hpp"

#include <cstring>

#include "check/forms.hpp"
#include "check/reference_options.hpp"
#include "gate/wide.hpp"
#include "inputs/random.hpp"
#include "reference/reference.hpp"

namespace runmax::check {
namespace {

reference::Row<double> narrowed(const reference::Row<long double>& row) {
  reference::Row<double> narrow;
  narrow.out.assign(row.out.begin(), row.out.end());
  narrow.magnitude.assign(row.magnitude.begin(), row.magnitude.end());
  narrow.lse = static_cast<double>(row.lse);
  narrow.score_magnitude = static_cast<double>(row.score_magnitude);
  narrow.keys = row.keys;
  return narrow;
}

}  // namespace

double with_low_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  // Uniform in [0, 2^-24): below the last bit of the float.
  const double more = static_cast<double>(inputs::Random(bits, 0x6c6f77).bits() >> 40) * 0x1p-48;
  return static_cast<double>(value) * (1.0 + more);
}

std::vector<double> with_low_bits(const std::vector<float>& values) {
  std::vector<double> wide;
  wide.reserve(values.size());
  for (const float value : values) wide.push_back(with_low_bits(value));
  return wide;
}

DoubleInputs double_inputs(const inputs::HostInputs& drawn) {
  return {with_low_bits(drawn.q), with_low_bits(drawn.k), with_low_bits(drawn.v), drawn.lengths,
          drawn.options};
}

void judge_double(const Problem& p, const DoubleInputs& data, const std::vector<std::int64_t>& rows,
                  int threads, const std::vector<Answer>& answers, std::vector<KernelReport>& reports,
                  const std::function<void(const std::string&)>& progress) {
  std::vector<gate::WideGate> gates(answers.size(), gate::WideGate(p.kv_len));
  const std::int64_t group = p.kv_heads == 0 ? 1 : p.query_heads / p.kv_heads;
  inputs::HostInputs lengths_alone;
  lengths_alone.lengths = data.lengths;
  const std::vector<SequencePlace> places = places_of(p, lengths_alone);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.query_heads; ++h) {
      if (progress)
        progress("reference: head " + std::to_string(b * p.query_heads + h + 1) + " of " +
                 std::to_string(p.batch * p.query_heads));
      const SequencePlace& place = places[static_cast<std::size_t>(b)];
      const Problem own = element_problem(p, place.lengths);
      const std::int64_t kv_head = b * p.kv_heads + h / group;
      const reference::Head<double> head{
          {data.q.data() + (b * p.query_heads + h) * p.query_len * p.head_dim, p.head_dim, 1},
          {data.k.data() + kv_head * p.kv_len * p.head_dim, p.head_dim, 1},
          {data.v.data() + kv_head * p.kv_len * p.value_dim, p.value_dim, 1},
          own.query_len,
          own.kv_len,
          p.head_dim,
          p.value_dim,
          effective_scale(p)};
      const std::vector<std::int64_t> own_rows =
          p.varlen.empty() ? rows
                           : reference::sampled_rows(own.query_len, static_cast<std::int64_t>(rows.size()));
      const auto visible = [&](std::int64_t i) {
        const KeyRange keys = visible_keys(own.causal, own.window, own.query_len, own.kv_len, i);
        return reference::Keys{keys.begin, keys.end};
      };
      const reference::ScoreOptions options =
          reference_options(p, data.options, b, h, diagonal_offset(own.causal, own.query_len, own.kv_len));
      reference::for_each_reference_row<long double>(
          head, own_rows, visible, threads,
          [&](std::int64_t i, const reference::Row<long double>& row) {
            const reference::Row<double> want = narrowed(row);
            for (std::size_t a = 0; a < answers.size(); ++a) {
              const HostTensor &o = answers[a].o, &lse = answers[a].lse;
              gates[a].add_row(
                  b, h, i, want, p.value_dim > 0 ? o.wide.data() + form_index(p, o, place, b, h, i) : nullptr,
                  o.strides[3], lse.wide[static_cast<std::size_t>(form_index(p, lse, place, b, h, i))]);
            }
          },
          options);
    }
  for (std::size_t a = 0; a < answers.size(); ++a) {
    reports[a].gates.clear();
    if (p.value_dim > 0)
      reports[a].gates.push_back({"f64 gate", gates[a].out_rule(), gates[a].out_verdict()});
    reports[a].gates.push_back({"lse gate", gates[a].lse_rule(), gates[a].lse_verdict()});
    reports[a].not_applied = {"lesson gate, hostile gate, second bar: are for f32, not f64"};
  }
}

}  // namespace runmax::check
