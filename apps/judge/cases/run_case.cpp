// One case in a worker of its own: calls, copies, gates, traps.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "gate/gate.hpp"
#include "judge/cases/buffers.hpp"
#include "judge/cases/case.hpp"

namespace runmax::judge {
namespace {

// One call: which data, in which set of arrays, over which poison.
struct Step {
  std::size_t data = 0, set = 0;
  Poison poison = Poison::nan;
};

struct Script {
  std::vector<Problem> data;  // of each data set; seeds count up
  std::vector<SetOfArrays> sets;
  std::vector<Step> steps;
};

Script script_of(const Case& one, const Manifest& manifest) {
  const Problem& p = one.problem;
  const SetOfArrays back{p, Placement::back}, front{p, Placement::front}, odd{p, Placement::odd};
  switch (one.sequence) {
    case Sequence::placements:
      return {
          {p}, {back, front, odd}, {{0, 0}, {0, 1, Poison::number}, {0, 2}, {0, 0}, {0, 1, Poison::number}}};
    case Sequence::twice:
      return {{p}, {back, front}, {{0, 0}, {0, 1, Poison::number}}};
    case Sequence::same_buffers:
      return {{p, p}, {back, odd}, {{0, 0}, {1, 0, Poison::number}, {0, 1}, {1, 1, Poison::number}}};
    case Sequence::many_calls: {
      Script script{{}, {front, back}, {}};
      for (std::size_t i = 0; i < 12; ++i) {
        script.data.push_back(p);
        script.steps.push_back(
            {i, i % 3 == 2 ? std::size_t{1} : std::size_t{0}, i % 2 ? Poison::number : Poison::nan});
      }
      return script;
    }
    case Sequence::memory_growth: {
      // The short one first, so that what a process takes once is not counted.
      Problem small = p, twice = p;
      const std::int64_t short_length =
          std::max(manifest.shortest + manifest.multiple_of - 1, manifest.multiple_of) /
          manifest.multiple_of * manifest.multiple_of;
      small.query_len = small.kv_len = std::min(short_length, p.kv_len);
      twice.query_len = twice.kv_len = 2 * p.kv_len;
      if (!manifest.serves_length(twice.kv_len)) twice = p;
      return {{small, p, twice},
              {{small, Placement::front}, {p, Placement::front}, {twice, Placement::front}},
              {{0, 0}, {1, 1}, {2, 2}}};
    }
    case Sequence::refusal:
      return {{p}, {back}, {{0, 0}}};
  }
  return {};
}

// The verdicts on one output.
struct Gated {
  bool finite = true;
  gate::Verdict reference, naive, lse;
  std::string rule;
  bool passed(bool with_naive, bool with_lse) const {
    return reference.passed && (!with_naive || naive.passed) && (!with_lse || lse.passed);
  }
};

Gated gate_output(const Problem& p, const Truth& truth, diagnosis::Bound bound, const std::vector<float>& out,
                  const std::vector<float>& lse) {
  const bool lesson = bound == diagnosis::Bound::lesson;
  gate::LessonGate against_reference(p.kv_len), against_naive(p.kv_len);
  gate::HostileGate hostile(p.kv_len, gate::SequentialSum::allowed);
  gate::LseGate of_lse(p.kv_len, gate::SequentialSum::allowed);
  std::size_t r = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.query_heads; ++h)
      for (std::int64_t i = 0; i < p.query_len; ++i, ++r) {
        const float* got = out.data() + static_cast<std::int64_t>(r) * p.value_dim;
        if (lesson) {
          against_reference.add_row(b, h, i, truth.want[r], got, 1);
          against_naive.add_row_against(b, h, i, truth.want[r],
                                        truth.naive.data() + static_cast<std::int64_t>(r) * p.value_dim, 1,
                                        got, 1);
        } else {
          hostile.add_row(b, h, i, truth.want[r], got, 1);
        }
        if (!lse.empty()) of_lse.add(b, h, i, truth.want[r], lse[r]);
      }
  Gated gated;
  gated.reference = lesson ? against_reference.verdict() : hostile.verdict();
  gated.naive = against_naive.verdict();
  gated.lse = of_lse.verdict();
  gated.rule = lesson ? against_reference.rule() : hostile.rule();
  gated.finite = gated.reference.finite;
  return gated;
}

std::string offender_words(const gate::Verdict& verdict, const char* against) {
  const gate::Offender& o = verdict.offender;
  if (o.dim < 0)
    return fmt::format("against {}: {}: got {:.9g}, want {:.9g}, bound {:.3e}", against, place_text(o), o.got,
                       o.want, o.bound);
  std::string head = o.batch > 0 || o.head > 0 ? fmt::format("batch {}, head {}, ", o.batch, o.head) : "";
  return fmt::format(
      "against {}: {}query row {}, head dimension {}: got {:.9g}, want {:.9g}, bound {:.3e}; {} of {} "
      "elements are wrong",
      against, head, o.row, o.dim, o.got, o.want, o.bound, verdict.failed, verdict.compared);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The worst of a case's calls is what the report shows.
void keep_worst(gate::Verdict& kept, const gate::Verdict& verdict, bool first) {
  if (first || (kept.passed && !verdict.passed) ||
      (kept.passed == verdict.passed && verdict.gate_fraction > kept.gate_fraction))
    kept = verdict;
}

std::string signal_words(const Outcome& outcome) {
  if (outcome.signal != 0)
    return fmt::format("was ended by signal {} ({})", outcome.signal, strsignal(outcome.signal));
  return fmt::format("ended itself with exit status {}", outcome.exit_status);
}

std::string printable(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const std::size_t line = text.rfind('\n');
  if (line != std::string::npos) text.erase(0, line + 1);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  return text.size() > 160 ? text.substr(0, 160) + "..." : text;
}

class Run {
 public:
  Run(const Case& one, const Manifest& manifest, const CaseOptions& options)
      : case_(one), manifest_(manifest), options_(options), script_(script_of(one, manifest)) {
    result_.name = one.name;
    result_.reason = one.reason;
    result_.bound = one.bound;
    result_.problem = to_text(one.problem);
  }

  const Confinement& confinement() const { return confinement_; }
  const Resources& resources() const { return resources_; }

  Result<CaseResult> run() {
    Result<Buffers> buffers = Buffers::make(script_.sets, manifest_);
    if (!buffers.ok()) return buffers.status();
    buffers_ = std::move(buffers.value());
    for (std::size_t i = 0; i < script_.data.size(); ++i) {
      Inputs inputs;
      case_.draw(script_.data[i], options_.seed + i, inputs);
      inputs_.push_back(std::move(inputs));
      truths_.emplace_back();
      if (!gates(i)) continue;
      Result<Truth> truth = truth_of(script_.data[i], inputs_[i], options_.threads);
      if (!truth.ok()) return truth.status();
      truths_[i] = std::move(truth.value());
    }
    WorkerOptions with;
    with.module = options_.module;
    with.symbol = options_.symbol;
    with.entry = options_.entry;
    with.device = options_.device;
    with.cores = options_.cores;
    with.user = options_.user;
    Result<Worker> started = Worker::start(with, buffers_.inputs(), buffers_.outputs());
    if (!started.ok()) return started.status();
    Worker worker = std::move(started.value());
    confinement_ = worker.confinement();
    resources_ = worker.resources();
    if (worker.started().ending != Ending::returned) {
      ended("while it was loaded", worker.started());
      return std::move(result_);
    }
    for (const Step& step : script_.steps)
      if (!take(step, worker)) break;
    conclude();
    if (result_.outcome == CaseOutcome::passed) {
      const Outcome after = worker.settle();
      if (!after.alive()) ended("after its last call", after);
    }
    if (options_.power && result_.passed() &&
        (case_.sequence == Sequence::placements || case_.sequence == Sequence::twice))
      result_.blind_to = blind_spots(case_.problem, inputs_[0], truths_[0], case_.bound, manifest_.key_tile);
    return std::move(result_);
  }

 private:
  // The long calls that show memory are gated in other cases.
  bool gates(std::size_t data) const { return case_.sequence != Sequence::memory_growth || data == 0; }

  void fail(CaseOutcome outcome, const std::string& finding, const std::string& message) {
    if (result_.outcome != CaseOutcome::passed) return;
    result_.outcome = outcome;
    result_.finding = finding;
    result_.message = message;
  }

  void ended(const std::string& when, const Outcome& outcome) {
    const std::string said =
        outcome.output.empty() ? "" : fmt::format("; it printed '{}'", printable(outcome.output));
    const auto crashed = [&](const std::string& finding, const std::string& what) {
      fail(CaseOutcome::crashed, finding, what + " " + when + said);
    };
    switch (outcome.ending) {
      case Ending::crashed: {
        const Buffers::Finding fault = buffers_.fault(outcome);
        if (!fault.name.empty()) return crashed(fault.name, fault.sentence + ",");
        if (outcome.output.find("bad_alloc") != std::string::npos)
          return crashed("memory-limit",
                         "it asked for more memory than it may have and " + signal_words(outcome));
        if (!outcome.device_error.empty())
          return crashed("crash", "the device says '" + outcome.device_error + "'");
        return crashed("crash", "it " + signal_words(outcome));
      }
      case Ending::hung:
        return fail(CaseOutcome::hung, "hang",
                    fmt::format("it had not returned after {:g} s, {}", options_.call_seconds, when));
      case Ending::flooded:
        return crashed("output-flood", "it printed more than 64 KiB");
      case Ending::memory:
        return crashed("memory-limit", "it held more than 1 GiB beyond its arguments");
      case Ending::forged:
        return crashed("forged-result", "something in its process answered in the worker's place");
      case Ending::not_loaded:
        return crashed("not-loaded", "it could not be loaded");
      case Ending::returned:
      case Ending::refused:
        return;
    }
  }

  // False if no further call makes sense.
  bool take(const Step& step, Worker& worker) {
    const Problem& p = script_.data[step.data];
    const Truth& truth = truths_[step.data];
    buffers_.put(step.set, inputs_[step.data]);
    buffers_.poison(step.set, step.poison);
    const auto before = worker.memory();
    Call call = buffers_.call(step.set);
    if (case_.sequence == Sequence::memory_growth) call.watch_memory = 1;
    const Outcome outcome = worker.call({call}, options_.call_seconds);
    std::vector<float> out = buffers_.out(step.set), lse = buffers_.lse(step.set);
    const std::string when = fmt::format("in call {}", ++result_.calls);
    if (outcome.ending == Ending::refused) {
      if (case_.sequence != Sequence::refusal)
        fail(
            CaseOutcome::failed, "refused-inside-claim",
            fmt::format("it returned {} {}, for a problem that its manifest claims", outcome.returned, when));
      return false;
    }
    if (!outcome.alive()) {
      ended(when, outcome);
      return false;
    }
    if (case_.sequence == Sequence::memory_growth) note_memory(step, outcome, before, worker.memory());
    if (const Buffers::Finding found = buffers_.written_inputs(step.set); !found.name.empty())
      fail(CaseOutcome::failed, found.name, found.sentence + " " + when);
    if (!gates(step.data)) return true;

    const Gated gated = gate_output(p, truth, case_.bound, out, lse);
    const bool lesson = case_.bound == diagnosis::Bound::lesson;
    keep_worst(result_.against_reference, gated.reference, !result_.gated);
    if (lesson) keep_worst(result_.against_naive, gated.naive, !result_.gated);
    result_.gated = true;
    result_.has_naive = lesson;
    result_.rule = gated.rule;
    if (const std::string outside = buffers_.written_outside(step.set); !outside.empty())
      fail(CaseOutcome::failed, "out-of-bounds", outside + " " + when);
    if (std::memcmp(out.data(), buffers_.out_memory(step.set), out.size() * sizeof(float)) != 0)
      fail(CaseOutcome::failed, "late-output",
           "the output still changed after the call had returned, " + when);
    answers_.push_back({step, std::move(out), std::move(lse), gated.passed(lesson, manifest_.lse), gated});
    return true;
  }

  void note_memory(const Step& step, const Outcome& outcome, const std::optional<Worker::Memory>& before,
                   const std::optional<Worker::Memory>& after) {
    const bool device = on_device(options_.entry);
    if ((device ? outcome.memory_bytes < 0 : !before || !after) || step.data == 0) return;
    const std::int64_t taken =
        device ? outcome.memory_bytes : std::max<std::int64_t>(after->peak - before->now, 0);
    const std::int64_t bytes = taken + buffers_.workspace_bytes(step.set);
    const std::int64_t length = script_.data[step.data].kv_len;
    if (step.data == 1) {
      result_.memory_first = bytes;
      result_.length_first = length;
    } else {
      result_.memory_second = bytes;
      result_.length_second = length;
    }
  }

  struct Answer {
    Step step;
    std::vector<float> out, lse;
    bool passed = false;
    Gated gated;
  };

  // What all calls together say.
  void conclude() {
    if (case_.sequence == Sequence::refusal) return conclude_refusal();
    const auto wrong =
        std::find_if(answers_.begin(), answers_.end(), [](const Answer& a) { return !a.passed; });
    if (wrong != answers_.end()) {
      keep_evidence(*wrong, result_.wrong);
      const auto number = static_cast<std::size_t>(wrong - answers_.begin());
      explain_history(number);
      if (result_.passed()) {
        const Gated& g = wrong->gated;
        const std::string words = !g.reference.passed ? offender_words(g.reference, "the reference")
                                  : !g.lse.passed && !wrong->lse.empty()
                                      ? offender_words(g.lse, "the reference")
                                      : offender_words(g.naive, "the naive path");
        fail(CaseOutcome::failed, "", words);
      }
    } else if (!answers_.empty()) {
      keep_evidence(answers_.front(), result_.right);
    }
    if (case_.sequence == Sequence::placements && answers_.size() == 5)
      result_.same_bits = same_bits(answers_[0].out, answers_[3].out);
    if (case_.sequence == Sequence::memory_growth) conclude_memory();
  }

  void conclude_refusal() {
    if (answers_.empty() || answers_[0].passed || !result_.passed()) return;
    fail(CaseOutcome::failed, "served-outside-claim",
         fmt::format("{} is outside of its claim: it returned 0 with a wrong answer instead of refusing; {}",
                     manifest_.outside(case_.problem),
                     offender_words(answers_[0].gated.reference, "the reference")));
  }

  // The traps that need more than one look: stale memory, answers of earlier calls.
  void explain_history(std::size_t number) {
    const Answer& wrong = answers_[number];
    const Problem& p = script_.data[wrong.step.data];
    for (std::size_t i = 0; i < number; ++i) {
      const Answer& earlier = answers_[i];
      if (earlier.step.data == wrong.step.data || !(script_.data[earlier.step.data] == p)) continue;
      if (gate_output(p, truths_[earlier.step.data], case_.bound, wrong.out, wrong.lse).reference.passed)
        return fail(
            CaseOutcome::failed, "replayed-output",
            fmt::format("call {} brought new data and gave the answer of call {}", number + 1, i + 1));
    }
    const Repetition repetition = repetition_of(wrong);
    if (repetition == Repetition::differs)
      return fail(CaseOutcome::failed, "wrong-after-calls",
                  fmt::format("call {} of {} is wrong, and the same call on the same memory gave another "
                              "answer at another time",
                              number + 1, answers_.size()));
    // The same data on other memory: right and wrong, or wrong in two ways, says that the memory decides.
    for (const Answer& other : answers_) {
      if (other.step.data != wrong.step.data || repetition != Repetition::agrees) continue;
      if (other.step.set == wrong.step.set && other.step.poison == wrong.step.poison) continue;
      if (other.passed == wrong.passed && same_or_close(other, wrong)) continue;
      return fail(
          CaseOutcome::failed, "depends-on-old-memory",
          "the answer depends on what outputs or workspace held before the call, or on where they lie: "
          "the same data gave another answer" +
              std::string(other.passed ? ", a right one" : ""));
    }
    if (const std::string words = unwritten(wrong, p); !words.empty())
      return fail(CaseOutcome::failed, "output-unwritten", words + fmt::format(", in call {}", number + 1));
    if (case_.sequence == Sequence::many_calls && number > 0)
      fail(CaseOutcome::failed, "wrong-after-calls",
           fmt::format("{} right, then call {} is wrong: {}",
                       number == 1 ? "one call was" : fmt::format("{} calls were", number), number + 1,
                       offender_words(wrong.gated.reference, "the reference")));
  }

  // Whether two outputs of the same data agree, up to what rounding may do to them.
  bool same_or_close(const Answer& a, const Answer& b) const {
    if (same_bits(a.out, b.out)) return true;
    const std::vector<reference::Row<double>>& want = truths_[a.step.data].want;
    const auto dim = want.empty() ? std::size_t{1} : want[0].out.size();
    for (std::size_t i = 0; i < a.out.size(); ++i) {
      if (is_poison(a, i) && is_poison(b, i)) continue;
      const double scale = gate::Scale(want[i / dim])[i % dim];
      if (!gate::within(a.out[i], b.out[i], 1e-3 * scale)) return false;
    }
    return true;
  }

  // What the same call on the same memory gave at another time.
  enum class Repetition { none, agrees, differs };
  Repetition repetition_of(const Answer& one) const {
    Repetition repetition = Repetition::none;
    for (const Answer& other : answers_) {
      if (&other == &one || other.step.data != one.step.data || other.step.set != one.step.set ||
          other.step.poison != one.step.poison)
        continue;
      if (!same_or_close(one, other)) return Repetition::differs;
      repetition = Repetition::agrees;
    }
    return repetition;
  }

  static bool is_poison(const Answer& answer, std::size_t element) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &answer.out[element], sizeof bits);
    return bits == static_cast<std::uint32_t>(answer.step.poison);
  }

  // Elements that still hold the poison, over every poison that this data was computed on: what is added to a
  // NaN leaves it as it was.
  std::string unwritten(const Answer& answer, const Problem& p) const {
    std::size_t count = 0, first = 0;
    for (std::size_t i = 0; i < answer.out.size(); ++i) {
      if (!is_poison(answer, i)) continue;
      const bool everywhere = std::all_of(answers_.begin(), answers_.end(), [&](const Answer& other) {
        return other.step.data != answer.step.data || is_poison(other, i);
      });
      if (everywhere && count++ == 0) first = i;
    }
    if (count == 0) return "";
    const auto dim = static_cast<std::size_t>(p.value_dim);
    return fmt::format(
        "{} of {} output elements were never written, the first in query row {}, head dimension {}", count,
        answer.out.size(), first / dim % static_cast<std::size_t>(p.query_len), first % dim);
  }

  void conclude_memory() {
    const std::int64_t n = result_.length_second;
    if (n < 1024 || result_.memory_second < 0 || result_.length_first * 2 != n) return;
    // A quarter of an FP32 matrix, and growth with the square of the length.
    if (result_.memory_second < n * n || result_.memory_second < 3 * result_.memory_first) return;
    fail(CaseOutcome::failed, "matrix-stored",
         fmt::format("beyond its arguments it held {:.1f} MiB at n = {} and {:.1f} MiB at n = {}: that grows "
                     "like an n by n matrix",
                     static_cast<double>(result_.memory_first) / 1048576, result_.length_first,
                     static_cast<double>(result_.memory_second) / 1048576, n));
  }

  void keep_evidence(const Answer& answer, std::shared_ptr<CaseResult::Wrong>& kept) {
    const std::size_t data = answer.step.data;
    kept = std::make_shared<CaseResult::Wrong>(
        CaseResult::Wrong{script_.data[data], inputs_[data], truths_[data], answer.out, answer.lse});
  }

  const Case& case_;
  Confinement confinement_;
  Resources resources_;
  const Manifest& manifest_;
  const CaseOptions& options_;
  Script script_;
  Buffers buffers_;
  std::vector<Inputs> inputs_;
  std::vector<Truth> truths_;
  std::vector<Answer> answers_;
  CaseResult result_;
};

}  // namespace

std::string_view case_outcome_name(CaseOutcome outcome) {
  switch (outcome) {
    case CaseOutcome::passed:
      return "passed";
    case CaseOutcome::failed:
      return "failed";
    case CaseOutcome::crashed:
      return "crashed";
    case CaseOutcome::hung:
      return "hung";
  }
  return "";
}

diagnosis::Evidence CaseResult::Wrong::evidence(const Manifest& manifest, diagnosis::Bound bound) const {
  diagnosis::Evidence evidence;
  evidence.problem = problem;
  evidence.q = inputs.q.data();
  evidence.k = inputs.k.data();
  evidence.v = inputs.v.data();
  evidence.want = truth.want.data();
  evidence.out = out.data();
  evidence.lse = lse.empty() ? nullptr : lse.data();
  evidence.bound = bound;
  evidence.key_tile = manifest.key_tile;
  return evidence;
}

Result<CaseResult> run_case(const Case& one, const Manifest& manifest, const CaseOptions& options,
                            Confinement* confinement, Resources* resources) {
  Run run(one, manifest, options);
  Result<CaseResult> result = run.run();
  if (confinement) *confinement = run.confinement();
  if (resources) *resources = run.resources();
  return result;
}

}  // namespace runmax::judge
