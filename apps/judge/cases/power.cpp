// Which trivial answers an input lets through.
#include <cstddef>

#include "gate/gate.hpp"
#include "judge/cases/case.hpp"

namespace runmax::judge {
namespace {

constexpr const char* trivial[] = {"output-zero", "mean-of-values", "best-key-value", "last-tile-dropped",
                                   "output-not-rescaled"};

bool passes(const Problem& p, const Truth& truth, diagnosis::Bound bound, const std::vector<float>& out) {
  gate::LessonGate lesson(p.kv_len);
  gate::HostileGate hostile(p.kv_len, gate::SequentialSum::allowed);
  for (std::size_t r = 0; r < truth.want.size(); ++r) {
    const float* got = out.data() + r * static_cast<std::size_t>(p.value_dim);
    if (bound == diagnosis::Bound::lesson)
      lesson.add_row(0, 0, static_cast<std::int64_t>(r), truth.want[r], got, 1);
    else
      hostile.add_row(0, 0, static_cast<std::int64_t>(r), truth.want[r], got, 1);
  }
  return bound == diagnosis::Bound::lesson ? lesson.verdict().passed : hostile.verdict().passed;
}

}  // namespace

std::vector<std::string> blind_spots(const Problem& problem, const Inputs& inputs, const Truth& truth,
                                     diagnosis::Bound bound, std::int64_t key_tile) {
  diagnosis::Evidence evidence;
  evidence.problem = problem;
  evidence.q = inputs.q.data();
  evidence.k = inputs.k.data();
  evidence.v = inputs.v.data();
  evidence.want = truth.want.data();
  evidence.out = truth.naive.data();
  evidence.bound = bound;
  evidence.key_tile = key_tile;
  std::vector<std::string> blind;
  for (const char* name : trivial) {
    const diagnosis::Mistake* mistake = diagnosis::find_mistake(name);
    if (!mistake) continue;
    const std::vector<float> answer = diagnosis::answer_with(*mistake, evidence);
    // Nothing comes back where the mistake leaves every element within its bound.
    if (answer.empty() || passes(problem, truth, bound, answer)) blind.emplace_back(name);
  }
  return blind;
}

}  // namespace runmax::judge
