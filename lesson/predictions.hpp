// The lesson's five predictions as a pure function of measured figures (C++17).
//
// A prediction that fails is a result, not an error: the figures stand beside it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace runmax {
namespace lesson {

enum class Outcome { held, failed, not_applicable };

inline const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::held:
      return "held";
    case Outcome::failed:
      return "failed";
    case Outcome::not_applicable:
      return "not applicable here";
  }
  return "";
}

// `figures` are the measured numbers, `reason` one clause that says why the outcome is what it is.
struct Prediction {
  std::string name;
  Outcome outcome = Outcome::not_applicable;
  std::string figures;
  std::string reason;
};

// One length at which the lesson's naive and online paths both ran. Gate fractions are the largest
// |got - want| / bound; times are milliseconds of the warm median.
struct SizeFigures {
  std::int64_t n = 0;
  bool gates_passed = false;  // naive and online against the reference, and online against naive
  double naive_gate_fraction = 0;
  double online_gate_fraction = 0;
  double online_vs_naive_gate_fraction = 0;
  double naive_max_abs_error = 0;
  double online_max_abs_error = 0;
  double naive_ms = 0;
  double online_ms = 0;
};

// One kernel: what the driver reports beside what arithmetic predicts.
struct ResourceFigures {
  std::string kernel;
  bool is_online = false;
  int shared_bytes = 0;
  int expected_shared_bytes = 0;
  int registers = 0;
  int blocks = 0;
  int expected_blocks = 0;
  double occupancy = 0;
  double expected_occupancy = 0;
  int threads = 0;              // of a block
  int local_bytes = 0;          // of a thread: spills and the like
  const char* limited_by = "";  // what keeps further blocks out, by arithmetic
};

namespace prediction_detail {

template <class... Values>
std::string text(const char* format, Values... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

inline std::string number(std::int64_t n) { return std::to_string(n); }

inline void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

}  // namespace prediction_detail

inline double naive_over_online(const SizeFigures& size) { return size.naive_ms / size.online_ms; }

inline Prediction predict_gates(const std::vector<SizeFigures>& sizes) {
  using namespace prediction_detail;
  Prediction p;
  p.name = "every gate passes, and online against naive is never exactly zero";
  if (sizes.empty()) {
    p.reason = "no size ran both paths";
    return p;
  }
  std::string failed, zero;
  for (const SizeFigures& size : sizes) {
    append(p.figures, text("%s: %.4f", number(size.n).c_str(), size.online_vs_naive_gate_fraction));
    if (!size.gates_passed) append(failed, number(size.n));
    if (!(size.online_vs_naive_gate_fraction > 0)) append(zero, number(size.n));
  }
  p.figures = "online-versus-naive gate fraction at " + p.figures;
  p.outcome = failed.empty() && zero.empty() ? Outcome::held : Outcome::failed;
  p.reason = !failed.empty() ? "a gate failed at N = " + failed
             : !zero.empty() ? "the two paths agree to the bit at N = " + zero +
                                   ", so they did not sum in different orders"
                             : "two summation orders, both inside the gate";
  return p;
}

inline Prediction predict_errors(const std::vector<SizeFigures>& sizes) {
  using namespace prediction_detail;
  Prediction p;
  p.name = "online's maximum error stays within 2x of naive's at every size";
  if (sizes.empty()) {
    p.reason = "no size ran both paths";
    return p;
  }
  std::string beyond;
  for (const SizeFigures& size : sizes) {
    append(p.figures, text("%s: %.3e against %.3e (%.2fx)", number(size.n).c_str(), size.online_max_abs_error,
                           size.naive_max_abs_error, size.online_max_abs_error / size.naive_max_abs_error));
    // Written so that a NaN is beyond.
    if (!(size.online_max_abs_error <= 2 * size.naive_max_abs_error)) append(beyond, number(size.n));
  }
  p.outcome = beyond.empty() ? Outcome::held : Outcome::failed;
  p.reason = beyond.empty() ? "rescaling costs no more than reordering" : "beyond 2x at N = " + beyond;
  return p;
}

// `why_none` says why there are no figures ("a CPU has no multiprocessors").
inline Prediction predict_resources(const std::vector<ResourceFigures>& kernels,
                                    const std::string& why_none) {
  using namespace prediction_detail;
  Prediction p;
  p.name =
      "resources are what arithmetic predicts: the online kernel takes 32,896 shared bytes, and blocks per "
      "multiprocessor follow from the device's limits";
  if (kernels.empty()) {
    p.reason = why_none;
    return p;
  }
  std::string wrong;
  for (const ResourceFigures& k : kernels) {
    append(p.figures, text("%s: %d shared bytes, %d registers, %d blocks (predicted %d), %.0f %% occupancy",
                           k.kernel.c_str(), k.shared_bytes, k.registers, k.blocks, k.expected_blocks,
                           100 * k.occupancy));
    if (k.blocks != k.expected_blocks || k.shared_bytes != k.expected_shared_bytes) append(wrong, k.kernel);
  }
  p.outcome = wrong.empty() ? Outcome::held : Outcome::failed;
  p.reason = wrong.empty() ? "registers are the compiler's; everything else was known before the build"
                           : "reported and predicted differ for " + wrong;
  return p;
}

inline Prediction predict_loss_at_256(const std::vector<SizeFigures>& sizes) {
  using namespace prediction_detail;
  Prediction p;
  p.name = "online loses to naive at N = 256";
  for (const SizeFigures& size : sizes) {
    if (size.n != 256) continue;
    p.figures = text("online %.4f ms, naive %.4f ms, naive/online %.3f", size.online_ms, size.naive_ms,
                     naive_over_online(size));
    p.outcome = size.online_ms > size.naive_ms ? Outcome::held : Outcome::failed;
    p.reason = p.outcome == Outcome::held
                   ? "a small matrix costs little, and four query blocks fill little of a device"
                   : "online is not slower there";
    return p;
  }
  p.reason = "N = 256 was not measured";
  return p;
}

inline Prediction predict_crossing(std::vector<SizeFigures> sizes) {
  using namespace prediction_detail;
  Prediction p;
  p.name = "naive/online rises strictly with N and crosses 1 only at 4096";
  std::sort(sizes.begin(), sizes.end(), [](const SizeFigures& a, const SizeFigures& b) { return a.n < b.n; });
  bool has_4096 = false, rises = true, below_before = true, above_from = true;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double ratio = naive_over_online(sizes[i]);
    append(p.figures, text("%s: %.3f", number(sizes[i].n).c_str(), ratio));
    has_4096 = has_4096 || sizes[i].n == 4096;
    if (i > 0 && !(ratio > naive_over_online(sizes[i - 1]))) rises = false;
    if (sizes[i].n < 4096 && !(ratio < 1)) below_before = false;
    if (sizes[i].n >= 4096 && !(ratio > 1)) above_from = false;
  }
  if (!has_4096 || sizes.size() < 2 || sizes.front().n >= 4096) {
    p.reason = "needs N = 4096 and a smaller size, both with naive and online";
    return p;
  }
  p.outcome = rises && below_before && above_from ? Outcome::held : Outcome::failed;
  std::string reason;
  if (!rises) append(reason, "the ratio does not rise at every step");
  if (!below_before) append(reason, "online already wins below 4096");
  if (!above_from) append(reason, "online does not win at 4096");
  p.reason = reason.empty() ? "the byte win exists at every size, the time win only from 4096 on" : reason;
  return p;
}

// All five, in the lesson's order. `sizes` are those where both paths ran, in any order.
inline std::vector<Prediction> five_predictions(const std::vector<SizeFigures>& sizes,
                                                const std::vector<ResourceFigures>& kernels,
                                                const std::string& why_no_resources) {
  return {predict_gates(sizes), predict_errors(sizes), predict_resources(kernels, why_no_resources),
          predict_loss_at_256(sizes), predict_crossing(sizes)};
}

}  // namespace lesson
}  // namespace runmax
