// From evidence to a diagnosis: the usual mistakes first, then what can be read off the wrong answer itself,
// then a pattern.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "judge/diagnosis/diagnosis.hpp"
#include "judge/diagnosis/fit.hpp"
#include "judge/diagnosis/hypothesis.hpp"
#include "judge/diagnosis/pattern.hpp"

namespace runmax::diagnosis {
namespace {

// Rows of a call that all hypotheses are tried on, and that the best ones are then held to.
constexpr std::int64_t first_wrong = 12, first_right = 6;
constexpr std::int64_t final_wrong = 64, final_right = 32;
constexpr std::size_t finalists = 16;

// Fits closer than this are equally good: the order of mistakes() decides.
constexpr double indistinguishable = 2e-4;

// From here on nothing better is looked for.
constexpr double exact = 0.999;

class Search {
 public:
  explicit Search(const std::vector<Call>& calls)
      : calls_(calls), first_(calls, first_wrong, first_right), final_(calls, final_wrong, final_right) {}

  void add(const Hypotheses& list) {
    std::vector<std::pair<double, const Hypothesis*>> ranked;
    for (const Hypothesis& hypothesis : list)
      if (const double share = first_.explained(hypothesis); share > worth_mentioning / 2)
        ranked.emplace_back(share, &hypothesis);
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    // Every mistake sends its best parameters on, and the best of all go besides.
    std::map<const Mistake*, std::size_t> sent;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      const Hypothesis& hypothesis = *ranked[i].second;
      if (i >= finalists && sent[hypothesis.mistake] > 0) continue;
      ++sent[hypothesis.mistake];
      keep({hypothesis.mistake, hypothesis.parameters, final_.explained(hypothesis)});
    }
  }

  void add_lse() {
    for (const char* name : {"lse-base-2", "lse-without-maximum"})
      keep({find_mistake(name), "", final_.lse_explained(name)});
  }

  double best() const {
    double best = 0;
    for (const auto& [mistake, fit] : fits_) best = std::max(best, fit.explained);
    return best;
  }

  std::vector<Fit> fits() const {
    std::vector<Fit> fits;
    for (const auto& [mistake, fit] : fits_)
      if (fit.explained >= worth_mentioning) fits.push_back(fit);
    const auto step = [](const Fit& fit) { return std::lround(fit.explained / indistinguishable); };
    std::sort(fits.begin(), fits.end(), [&](const Fit& a, const Fit& b) {
      return step(a) != step(b) ? step(a) > step(b) : a.mistake < b.mistake;
    });
    return fits;
  }

 private:
  // One fit a mistake: its best parameters, the first ones where several are as good.
  void keep(Fit fit) {
    auto [at, is_new] = fits_.try_emplace(fit.mistake, fit);
    if (!is_new && fit.explained > at->second.explained + 1e-9) at->second = fit;
  }

  const std::vector<Call>& calls_;
  Sample first_, final_;
  std::map<const Mistake*, Fit> fits_;
};

Hypotheses usual_mistakes(const std::vector<Call>& calls) {
  const std::vector<std::int64_t> tiles = key_tiles(calls);
  Hypotheses list;
  add_trivial(list);
  add_online(list, tiles);
  add_keys(list, tiles);
  add_scores(list);
  add_layouts(list);
  add_precision(list, tiles);
  return list;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

}  // namespace

std::string Fit::text() const {
  return std::string(mistake->name) + (parameters.empty() ? "" : " (" + parameters + ")") + ", fits " +
         percent(explained);
}

const Fit* Diagnosis::named() const {
  return !fits.empty() && fits.front().explained >= convincing ? &fits.front() : nullptr;
}

std::string Diagnosis::text() const {
  if (!anything_wrong) return "nothing is wrong";
  const Fit* fit = named();
  if (!fit) {
    std::string text = pattern;
    if (!fits.empty()) text += "\n  closest known mistake: " + fits.front().text();
    return text;
  }
  std::string text = std::string(fit->mistake->name) + ": " + std::string(fit->mistake->sentence) +
                     "\n  it explains " + percent(fit->explained) + " of the error" +
                     (fit->parameters.empty() ? "" : " (" + fit->parameters + ")") +
                     "\n  the line that is broken: " + std::string(identity_line(fit->mistake->term)) +
                     "\n  what to do: " + std::string(fit->mistake->remedy);
  if (!also_possible.empty()) {
    text += "\n  on this data it cannot be told from";
    for (std::size_t i = 0; i < also_possible.size(); ++i)
      text += (i ? ", " : " ") + std::string(also_possible[i]);
  }
  return text;
}

Diagnosis diagnose(const std::vector<Evidence>& evidence) {
  std::vector<Call> calls;
  calls.reserve(evidence.size());
  for (const Evidence& one : evidence) calls.emplace_back(one);

  Diagnosis diagnosis;
  const auto wrong =
      std::find_if(calls.begin(), calls.end(), [](const Call& call) { return call.anything_wrong(); });
  const bool lse_wrong =
      std::any_of(calls.begin(), calls.end(), [](const Call& call) { return call.any_lse_wrong(); });
  diagnosis.anything_wrong = wrong != calls.end() || lse_wrong;
  if (!diagnosis.anything_wrong) return diagnosis;

  Search search(calls);
  if (wrong == calls.end()) {
    search.add_lse();
    diagnosis.pattern = "the output is right, the LSE is not";
  } else {
    search.add(usual_mistakes(calls));
    Hypotheses list;
    if (search.best() < exact) add_permutations(list, calls);
    search.add(list);
    if (search.best() < exact) {
      list.clear();
      add_key_counts(list, calls);
      add_fitted_scale(list, calls);
      search.add(list);
    }
    diagnosis.pattern = describe_pattern(*wrong);
    diagnosis.map = error_map(*wrong);
  }
  diagnosis.fits = search.fits();
  if (wrong != calls.end() && !wrong->suspect_dimensions().empty())
    for (Fit& fit : diagnosis.fits)
      fit.parameters += (fit.parameters.empty() ? "" : ", ") + std::string("dimensions ") +
                        indices_text(wrong->suspect_dimensions(), wrong->value_dim()) + " only";
  if (const Fit* named = diagnosis.named())
    for (const Fit& fit : diagnosis.fits)
      if (fit.mistake != named->mistake &&
          1 - fit.explained <= 2 * (1 - named->explained) + indistinguishable)
        diagnosis.also_possible.push_back(fit.mistake->name);
  return diagnosis;
}

Diagnosis diagnose(const Evidence& call) { return diagnose(std::vector<Evidence>{call}); }

std::vector<float> answer_with(const Mistake& mistake, const Evidence& evidence) {
  const std::vector<Call> calls{Call(evidence)};
  const Call& call = calls.front();
  for (const Hypothesis& hypothesis : usual_mistakes(calls)) {
    if (hypothesis.mistake != &mistake) continue;
    std::vector<float> answer(static_cast<std::size_t>(call.row_count() * call.value_dim()));
    bool changed = false;
    for (std::int64_t r = 0; r < call.row_count(); ++r) {
      Prediction prediction;
      float* out = answer.data() + r * call.value_dim();
      if (hypothesis.predict(row_inputs(call, r), prediction)) {
        std::copy(prediction.out.begin(), prediction.out.end(), out);
        changed = changed || call.breaks_bound(r, out);
      } else {
        const std::vector<double>& want = call.want(r).out;
        std::copy(want.begin(), want.end(), out);
      }
    }
    if (changed) return answer;
  }
  return {};
}

}  // namespace runmax::diagnosis
