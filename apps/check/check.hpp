// What `runmax check` decides: draws a problem's inputs, runs kernels on them and puts each answer before the
// gates. The tests use the same code.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "check/runner.hpp"
#include "gate/verdict.hpp"
#include "inputs/draw.hpp"
#include "runmax/runmax.hpp"

namespace runmax::check {

// One gate's verdict, and the relative tolerance it was given in words.
struct GateReport {
  std::string name;
  std::string rule;
  gate::Verdict verdict;
};

struct KernelReport {
  std::string kernel;
  std::string computed_as;
  std::string refusal;   // not empty: the kernel does not serve the problem, and nothing else here is set
  std::string trespass;  // not empty: it wrote where it must not
  std::vector<GateReport> gates;
  std::vector<std::string> not_applied;  // "second bar: needs 256 rows, got 12"
  std::string hint;    // why it may be rejected: a problem easily mistaken for this one, numbers out of range
  std::string repeat;  // the command that repeats this check of this kernel

  bool refused() const { return !refusal.empty(); }
  bool accepted() const;
};

struct CheckOptions {
  std::string kernel;  // a name, "all", or empty for the plan's own choice
  std::int32_t threads = 0;
  std::int32_t num_splits = 0;
  std::int64_t rows = 0;  // query rows of each head to compare at most; 0: as many as a few seconds allow
  std::function<void(const std::string&)> progress = {};  // called with what is being done, if set
};

struct CheckReport {
  Problem problem;
  DeviceFacts facts;
  std::int64_t rows_compared = 0;  // of each head
  std::vector<KernelReport> kernels;

  bool sampled() const { return rows_compared < problem.query_len; }
  // At least one kernel ran, and each that ran was accepted.
  bool accepted() const;
};

// The lesson gate judges data of ordinary size. The kinds with scores of several hundred, or with values over
// many octaves, are for the hostile gate alone.
bool lesson_gate_applies(InputKind kind);

// The command line that repeats the check of one kernel.
std::string repeat_command(const Problem& problem, const DeviceFacts& facts, const CheckOptions& options,
                           const std::string& kernel);

// Query rows of each head to compare: as asked, or for 0 as many as the reference takes a few seconds for.
std::int64_t rows_to_compare(const Problem& problem, std::int64_t asked);

// Threads for the reference: as asked, or for 0 those of this machine.
int worker_count(const DeviceFacts& facts, std::int32_t threads);

// Each value as it is stored in that type; 16-bit types lose some of a drawn value.
void round_to(DType dtype, inputs::HostInputs& drawn);
void round_to(DType dtype, std::vector<float>& values);

// A failure is the status of a broken problem, of a forced kernel that refuses, or of the device.
Result<CheckReport> check_problem(const Problem& problem, const DeviceFacts& facts,
                                  const CheckOptions& options);

// Where Q, K and V come from. Of a user's own data nothing is known, so the lesson gate, which is meant for
// some kinds of drawn data alone, does not apply.
enum class Data { drawn, users };

// Puts finished answers before the gates: `answers[a]` belongs to `reports[a]`. Rows as in the report.
void judge_answers(const Problem& problem, const inputs::HostInputs& drawn,
                   const std::vector<std::int64_t>& rows, int threads, const std::vector<Answer>& answers,
                   std::vector<KernelReport>& reports,
                   const std::function<void(const std::string&)>& progress, Data data = Data::drawn);

// "matches top-left alignment" and the like, if the answer is right for such a problem; else empty. For a
// rejected answer.
std::string hint_of(const Problem& problem, const inputs::HostInputs& drawn,
                    const std::vector<std::int64_t>& rows, int threads, const Answer& answer);

// Two or more lines: what was compared, one line a gate (two where it failed), and the verdict.
std::string describe(const KernelReport& kernel);
std::string describe(const CheckReport& report);

}  // namespace runmax::check
