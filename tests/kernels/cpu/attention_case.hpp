// Runs a CPU kernel on the drawn inputs of a problem text, and gates the answer against the reference.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gate/gate.hpp"
#include "inputs/draw.hpp"
#include "reference/reference.hpp"
#include "runmax/runmax.hpp"

namespace runmax::testing_cpu {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

// O and LSE of a problem, packed (batch, heads, length, dim).
struct Answer {
  std::vector<float> o, lse;
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Memory of exactly `bytes` at a multiple of 64, between guards that show what was written beside it.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t bytes) : bytes_(bytes), memory_(bytes + 3 * guard, mark) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + guard;
    offset_ = guard + (guard - address % guard) % guard;
    std::memset(data(), 0xff, bytes);  // NaN wherever it is read as float
  }
  void* data() { return memory_.data() + offset_; }
  std::size_t bytes() const { return bytes_; }
  bool intact() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < offset_ || i >= offset_ + bytes_) && memory_[i] != mark) return false;
    return true;
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr unsigned char mark = 0xa5;
  std::size_t bytes_, offset_ = 0;
  std::vector<unsigned char> memory_;
};

inline Problem problem_of(const std::string& text) {
  Result<Problem> problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.status().message();
  return problem.ok() ? problem.value() : Problem{};
}

inline DeviceFacts cpu_with(std::int32_t threads) {
  DeviceFacts facts;
  facts.name = "test CPU";
  facts.threads = threads;
  return facts;
}

// Plans and runs on a NaN-filled workspace of exactly the planned size and NaN-filled outputs.
inline Answer compute(const Problem& p, const inputs::HostInputs& in, const PlanOptions& options = {}) {
  Answer answer;
  answer.o.assign(static_cast<std::size_t>(p.batch * p.query_heads * p.query_len * p.value_dim), nan);
  answer.lse.assign(static_cast<std::size_t>(p.batch * p.query_heads * p.query_len), nan);
  const Result<Plan> planned = plan(p, cpu_with(2), options);
  EXPECT_TRUE(planned.ok()) << planned.status().message();
  if (!planned.ok()) return answer;
  const auto view = [&](const std::vector<float>& data, std::int64_t heads, std::int64_t length,
                        std::int64_t dim) {
    return packed_view(data.data(), DType::f32, {p.batch, heads, length, dim}, Layout::bhsd);
  };
  const Tensors tensors{
      view(in.q, p.query_heads, p.query_len, p.head_dim), view(in.k, p.kv_heads, p.kv_len, p.head_dim),
      view(in.v, p.kv_heads, p.kv_len, p.value_dim), view(answer.o, p.query_heads, p.query_len, p.value_dim),
      view(answer.lse, p.query_heads, p.query_len, 1)};
  GuardedBytes workspace(planned.value().workspace_bytes);
  const Status status = run(planned.value(), tensors, {workspace.data(), workspace.bytes()});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(workspace.intact()) << "wrote beside its workspace of " << workspace.bytes() << " bytes";
  return answer;
}

// The reference's head for one query head of packed inputs.
inline reference::Head<float> reference_head(const Problem& p, const inputs::HostInputs& in, std::int64_t b,
                                             std::int64_t h) {
  const std::int64_t kv = b * p.kv_heads + h / (p.query_heads / p.kv_heads);
  reference::Head<float> head;
  head.q = {in.q.data() + (b * p.query_heads + h) * p.query_len * p.head_dim, p.head_dim, 1};
  head.k = {in.k.data() + kv * p.kv_len * p.head_dim, p.head_dim, 1};
  head.v = {in.v.data() + kv * p.kv_len * p.value_dim, p.value_dim, 1};
  head.query_len = p.query_len;
  head.kv_len = p.kv_len;
  head.head_dim = p.head_dim;
  head.value_dim = p.value_dim;
  head.scale = effective_scale(p);
  return head;
}

// Holds an answer to the hostile gate without the term for sequential sums and to the LSE gate; data of
// ordinary size also to the lesson gate. At most `sample` rows of each head.
// `options_of(batch, head)` is what options do there, for the reference.
inline void expect_gated(
    const Problem& p, const inputs::HostInputs& in, const Answer& answer, const std::string& kernel,
    std::int64_t sample = 200,
    const std::function<reference::ScoreOptions(std::int64_t, std::int64_t)>& options_of = {}) {
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
            if (p.value_dim > 0) {
              hostile.add_row(b, h, i, want, answer.o.data() + row * p.value_dim, 1);
              lesson.add_row(b, h, i, want, answer.o.data() + row * p.value_dim, 1);
            }
            lse.add(b, h, i, want, answer.lse[static_cast<std::size_t>(row)]);
          },
          options_of ? options_of(b, h) : reference::ScoreOptions());
  const std::string repeat = "runmax check " + to_text(p) + " --kernel " + kernel;
  if (p.value_dim > 0) {
    EXPECT_TRUE(hostile.verdict().passed)
        << gate::describe(hostile.verdict(), "hostile gate", hostile.rule(), repeat);
    if (p.input == InputKind::normal || p.input == InputKind::loud || p.input == InputKind::onesign) {
      EXPECT_TRUE(lesson.verdict().passed)
          << gate::describe(lesson.verdict(), "lesson gate", lesson.rule(), repeat);
    }
  }
  EXPECT_TRUE(lse.verdict().passed) << gate::describe(lse.verdict(), "LSE gate", lse.rule(), repeat);
}

// Test names may hold letters, digits and '_' only.
inline std::string test_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

// Rows [begin, end) of every head of a packed (heads, length, dim) array.
inline std::vector<float> rows_of(const std::vector<float>& data, std::int64_t heads, std::int64_t length,
                                  std::int64_t dim, std::int64_t begin, std::int64_t end) {
  std::vector<float> part;
  for (std::int64_t h = 0; h < heads; ++h)
    part.insert(part.end(), data.begin() + (h * length + begin) * dim,
                data.begin() + (h * length + end) * dim);
  return part;
}

}  // namespace runmax::testing_cpu
