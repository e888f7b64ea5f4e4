// What a gate found (C++17). A verdict only ever goes from pass to fail, and says where it failed first.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

namespace runmax {
namespace gate {

// An element that broke its bound. `dim` is -1 for an LSE, which has no head dimension.
struct Offender {
  std::int64_t batch = 0, head = 0, row = 0, dim = 0;
  double got = 0, want = 0, bound = 0;
  const char* tensor = "o";  // whose element it is, unless `dim` says LSE; rows of dk and dv are keys
};

struct Verdict {
  bool passed = true;
  bool finite = true;         // no element was NaN or infinite where the reference is finite
  double gate_fraction = 0;   // largest |error| / bound; infinite where a value is of the wrong kind
  double max_abs_error = 0;   // over elements whose reference is finite
  std::int64_t compared = 0;  // elements looked at; a verdict about none is no pass
  std::int64_t failed = 0;    // elements beyond their bound
  bool has_offender = false;
  Offender offender;  // the first one
  Offender worst;     // the element of gate_fraction, passed or not
};

// True if `got` may stand for `want`: NaN where NaN is wanted, equal infinities, else within the bound. NaN
// never passes for a number, whatever the bound.
inline bool within(double got, double want, double bound) {
  if (std::isnan(want)) return std::isnan(got);
  if (got == want) return true;
  return std::isfinite(want) && std::isfinite(got) && std::abs(got - want) <= bound;
}

// Collects elements into a verdict.
class Collector {
 public:
  void add(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t dim, double got, double want,
           double bound, const char* tensor = "o") {
    const Offender element{batch, head, row, dim, got, want, bound, tensor};
    ++verdict_.compared;
    const bool good = within(got, want, bound);
    if (std::isfinite(want) && !std::isfinite(got)) verdict_.finite = false;
    double fraction = 0;
    if (std::isfinite(want) && std::isfinite(got)) {
      const double error = std::abs(got - want);
      if (error > verdict_.max_abs_error) verdict_.max_abs_error = error;
      if (error > 0) fraction = bound > 0 ? error / bound : std::numeric_limits<double>::infinity();
    } else if (!good) {
      fraction = std::numeric_limits<double>::infinity();
    }
    // The element is kept even when every fraction is 0, so that `worst` is always one that was compared.
    if (verdict_.compared == 1 || fraction > verdict_.gate_fraction) {
      verdict_.gate_fraction = fraction;
      verdict_.worst = element;
    }
    if (good) return;
    ++verdict_.failed;
    verdict_.passed = false;
    if (!verdict_.has_offender) {
      verdict_.has_offender = true;
      verdict_.offender = element;
    }
  }

  // The verdict so far. Nothing compared is not a pass.
  Verdict verdict() const {
    Verdict verdict = verdict_;
    if (verdict.compared == 0) verdict.passed = false;
    return verdict;
  }

 private:
  Verdict verdict_;
};

// "o[0,1,17,5]", "dk[0,1,17,5]" or, for an LSE, "lse[0,1,17]".
inline std::string place_text(const Offender& element) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const std::string row = number(element.batch) + "," + number(element.head) + "," + number(element.row);
  return element.dim < 0 ? "lse[" + row + "]"
                         : element.tensor + ("[" + row + "," + number(element.dim) + "]");
}

// One line, or two if it failed: the verdict of the gate called `name`, whose relative tolerance reads `rule`
// ("max(1e-5, 4*2^-23*sqrt(256)) = 1.000e-05"); `repeat` is the command that repeats the check.
inline std::string describe(const Verdict& verdict, const std::string& name, const std::string& rule,
                            const std::string& repeat) {
  char text[256];
  if (verdict.compared == 0) return name + ": FAILED, nothing was compared\n  repeat: " + repeat + "\n";
  // A gate without a rule asks for the kind of the values alone: it has no fraction.
  if (rule.empty())
    std::snprintf(text, sizeof text, "%lld values", static_cast<long long>(verdict.compared));
  else
    std::snprintf(text, sizeof text, "gate fraction %.4f, max abs error %.3e over %lld values, rtol ",
                  verdict.gate_fraction, verdict.max_abs_error, static_cast<long long>(verdict.compared));
  const std::string figures = text + rule;
  if (verdict.passed) return name + ": passed, " + figures + "\n";
  const Offender& o = verdict.offender;
  const bool of_key = std::string(o.tensor) == "dk" || std::string(o.tensor) == "dv";
  std::snprintf(text, sizeof text, "got %.9g want %.9g bound %.3e", o.got, o.want, o.bound);
  return name + ": FAILED " + place_text(o) + " " + text + (of_key ? " (key " : " (query row ") +
         std::to_string(o.row) + (o.dim < 0 ? "" : ", head dimension " + std::to_string(o.dim)) +
         "; first of " + std::to_string(verdict.failed) + "; " + (verdict.finite ? "" : "not finite; ") +
         figures + ")\n  repeat: " + repeat + "\n";
}

}  // namespace gate
}  // namespace runmax
