// One head for the lesson's tests: seeded data, its reference rows, and the lesson's two gates over an
// answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gate/gate.hpp"
#include "inputs/loud.hpp"
#include "kernels/lesson/online/host.hpp"
#include "reference/reference.hpp"

namespace runmax {
namespace lesson {

constexpr std::int64_t test_dim = 64;
constexpr float test_scale = 0.125f;

// loud_last: the lesson's data, the largest score of every row is key n - 3. loud_first: the same with that
// key moved into the first tile. far_below_zero: the same with every score lowered by 150.
enum class HeadData { loud_last, loud_first, far_below_zero };

inline const char* head_data_name(HeadData data) {
  switch (data) {
    case HeadData::loud_last:
      return "loud_last";
    case HeadData::loud_first:
      return "loud_first";
    case HeadData::far_below_zero:
      return "far_below_zero";
  }
  return "";
}

struct HeadCase {
  std::int64_t n;
  HeadData data;
  std::vector<float> q, k, v;

  HeadCase(std::int64_t length, HeadData kind, std::uint64_t seed = 1) : n(length), data(kind) {
    for (std::vector<float>* values : {&q, &k, &v}) values->resize(static_cast<std::size_t>(n * test_dim));
    if (n == 0) return;
    inputs::draw_loud_head(seed, n, test_dim, q.data(), k.data(), v.data());
    const auto row = [](std::vector<float>& values, std::int64_t j) { return values.begin() + j * test_dim; };
    if (kind == HeadData::loud_first) {
      const std::int64_t loud = inputs::loud_key(n), first = std::min<std::int64_t>(5, n - 1);
      std::swap_ranges(row(k, loud), row(k, loud) + test_dim, row(k, first));
      std::swap_ranges(row(v, loud), row(v, loud) + test_dim, row(v, first));
    }
    if (kind == HeadData::far_below_zero)
      // Channel 0 is the same in every query, so this lowers all scores alike.
      for (std::int64_t j = 0; j < n; ++j) *row(k, j) -= 150.0f / (test_scale * q[0]);
  }

  reference::Head<float> head() const {
    return {{q.data(), test_dim, 1},
            {k.data(), test_dim, 1},
            {v.data(), test_dim, 1},
            n,
            n,
            test_dim,
            test_dim,
            test_scale};
  }

  HostHead host_head(std::vector<float>& o) const {
    HostHead head;
    head.q = {q.data(), test_dim, 1};
    head.k = {k.data(), test_dim, 1};
    head.v = {v.data(), test_dim, 1};
    head.o = {o.data(), test_dim, 1};
    head.query_len = head.kv_len = n;
    head.head_dim = head.value_dim = test_dim;
    head.scale = test_scale;
    return head;
  }

  std::string text() const { return "n=" + std::to_string(n) + " data=" + head_data_name(data); }
};

// The answer of the rule in plain C++; NaN where nothing is written.
template <class Rule>
std::vector<float> host_answer(const HeadCase& c) {
  std::vector<float> o(static_cast<std::size_t>(c.n * test_dim), std::numeric_limits<float>::quiet_NaN());
  online_host_rows(
      c.host_head(o), 0, c.n,
      [&](std::int64_t) {
        return Keys{0, c.n};
      },
      Rule());
  return o;
}

// Verdicts of one answer by each gate. far_below_zero has scores whose rounding alone is beyond the lesson
// gate, so there the hostile gate is the right one.
struct Verdicts {
  gate::Verdict finiteness, lesson, hostile;
};

inline Verdicts judge_answer(const HeadCase& c, const std::vector<float>& o, int threads = 2) {
  gate::FinitenessGate finiteness;
  gate::LessonGate lesson(c.n);
  gate::HostileGate hostile(c.n, gate::SequentialSum::allowed);
  reference::for_each_reference_row(c.head(), reference::all_rows(c.n), reference::AllKeys{c.n}, threads,
                                    [&](std::int64_t i, const reference::Row<double>& row) {
                                      finiteness.add_row(0, 0, i, row, o.data() + i * test_dim, 1);
                                      lesson.add_row(0, 0, i, row, o.data() + i * test_dim, 1);
                                      hostile.add_row(0, 0, i, row, o.data() + i * test_dim, 1);
                                    });
  return {finiteness.verdict(), lesson.verdict(), hostile.verdict()};
}

inline std::string words(const HeadCase& c, const gate::Verdict& verdict) {
  return c.text() + ": " + gate::describe(verdict, "lesson gate", gate::lesson_rule(c.n), "this test");
}

}  // namespace lesson
}  // namespace runmax
