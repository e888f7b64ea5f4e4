// Why an answer is wrong: what each known mistake would have produced on the same data, and which one it was.
//
// Pure: no process, no file, no clock; the same evidence gives the same diagnosis.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/reference.hpp"
#include "runmax/problem.hpp"

namespace runmax::diagnosis {

// Which bound says that an element is wrong: the lesson gate for data of ordinary size, the hostile gate
// (with the slack of a plain sequential sum) for the rest.
enum class Bound { lesson, hostile };

// One call of the candidate. Arrays are packed (batch, heads, length, dim), dim fastest, and must outlive the
// diagnosis. Of the problem, only shapes, scale and causality are looked at.
struct Evidence {
  Problem problem;
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const reference::Row<double>* want = nullptr;  // one per (batch, query head, query), in this order
  const float* out = nullptr;                    // what the candidate wrote
  const float* lse = nullptr;                    // and its LSE, (batch, query head, query); null: it has none
  Bound bound = Bound::lesson;
  std::int64_t key_tile = 0;  // keys that the candidate takes at once, if it says so; 0: tried out
};

// The terms of the identity that every row obeys, tile by tile:
//   score = scale * q . k
//   new_max = max(old_max, tile_max)
//   rescale = exp(old_max - new_max)
//   weight = exp(score - new_max)
//   sum = sum * rescale + sum of the tile's weights
//   out = out * rescale + the tile's weights times V
//   answer = out / sum
//   lse = new_max + log(sum)
enum class Term { score, maximum, rescale, weight, sum, output, division, lse, keys, layout, precision };

// "output = output * rescale + weights . V_tile", the line of the identity that a term stands for.
std::string_view identity_line(Term term);

// A known mistake. The names are part of the report's format and stay.
struct Mistake {
  std::string_view name;      // "output-not-rescaled"
  Term term;                  // the line that it breaks
  std::string_view sentence;  // "the output is not rescaled when the maximum moves"
  std::string_view remedy;    // "multiply every element of the running output by exp(old_max - new_max)"
};

// Every mistake that can be named, in the order that breaks ties: trivial answers first.
const std::vector<Mistake>& mistakes();

// The mistake of that name, or null.
const Mistake* find_mistake(std::string_view name);

// How well a mistake explains the evidence.
struct Fit {
  const Mistake* mistake = nullptr;
  std::string parameters;  // "key tile 32", "query head h reads KV head h % 2"; may be empty
  // Share of the wrong rows' error (root mean square) that is gone when the answer is compared with the
  // mistake's instead of the right one: 1 means that the mistake's answer is the candidate's up to rounding.
  // A row that is right, and would be wrong by the mistake, counts against it.
  double explained = 0;
  std::string text() const;  // "output-not-rescaled (key tile 32), fits 100.0 %"
};

// How wrong each part of the output is: `rows` by `columns` cells over the (batch, head, query) rows and the
// value dimensions of one call.
struct ErrorMap {
  std::int64_t rows = 0, columns = 0;
  std::int64_t rows_per_cell = 1, columns_per_cell = 1;
  std::int64_t query_len = 0;  // rows of one head, to name them
  // Largest |error| / bound of each cell, row by row: above 1 is wrong, infinite is not finite (or infinite
  // where it must not be).
  std::vector<float> gate_fraction;
  // The picture, one line a row of cells with its first row's name before it and a legend below; plain ASCII.
  std::string text() const;
};

struct Diagnosis {
  // Fits of at least `worth_mentioning`, best first; mistakes that predict the same on this evidence are all
  // there, in the order of mistakes().
  std::vector<Fit> fits;
  // The first of them, if it fits convincingly: the diagnosis of the report. Null: see `pattern`.
  const Fit* named() const;
  // Other mistakes that predict what was seen as well as the named one.
  std::vector<std::string_view> also_possible;
  // Which rows, tiles and dimensions are wrong, in one sentence: "rows 128..255 are wrong, all dimensions".
  std::string pattern;
  ErrorMap map;
  bool anything_wrong = false;  // false: every element is within its bound, and nothing is named
  // The reason as a report says it: mistake, fit, line of the identity, remedy; or the pattern. No newline at
  // the end; the first line can stand alone.
  std::string text() const;
};

// Share explained from which a fit is mentioned, and from which it is the diagnosis.
constexpr double worth_mentioning = 0.5;
constexpr double convincing = 0.95;

// Diagnoses one call, or several of one candidate: what is named must fit all calls that are wrong, and must
// not predict errors in those that are right, so a right call beside a wrong one sharpens the diagnosis.
// Pattern and map are those of the first wrong call. Calls of more than about 1024 rows are sampled.
Diagnosis diagnose(const std::vector<Evidence>& calls);
Diagnosis diagnose(const Evidence& call);

// What the mistake makes of the evidence's inputs, packed like `out`, at its likeliest parameters that make
// anything wrong (key tile: the evidence's, or 32). Empty if none does: a layout of one head, a rescale where
// the maximum never moves, the LSE alone. For a power check; `out` and `lse` are not looked at.
std::vector<float> answer_with(const Mistake& mistake, const Evidence& call);

}  // namespace runmax::diagnosis
