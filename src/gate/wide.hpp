// The gates for f64 (C++17): those of FP32 with the rounding of double in the place of that of FP32.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "../reference/reference.hpp"
#include "tolerance.hpp"
#include "verdict.hpp"

namespace runmax {
namespace gate {

// 2^-52 / 2^-23: every term of the FP32 bounds is a multiple of the format's epsilon, 1e-5 too (84 of them).
constexpr double wide_share = 0x1p-29;

// The hostile gate and the LSE gate of double arithmetic. The reference's rows come from long double.
class WideGate {
 public:
  explicit WideGate(std::int64_t n) : n_(n) {}

  // `out` and `lse` are the answer's row; null if the problem has no value channels.
  void add_row(std::int64_t batch, std::int64_t head, std::int64_t row, const reference::Row<double>& want,
               const double* out, std::int64_t stride, double lse) {
    const Scale scale(want);
    const double rtol = wide_share * hostile_rtol(n_, want.score_magnitude, SequentialSum::not_allowed);
    for (std::size_t c = 0; c < want.out.size(); ++c)
      out_.add(batch, head, row, static_cast<std::int64_t>(c), out[static_cast<std::int64_t>(c) * stride],
               want.out[c], rtol * scale[c] + static_cast<double>(n_ + 1) * 0x1p-1074);
    lse_.add(batch, head, row, -1, lse, want.lse,
             wide_share * lse_bound(want.lse, want.score_magnitude, n_, SequentialSum::not_allowed));
  }

  Verdict out_verdict() const { return out_.verdict(); }
  Verdict lse_verdict() const { return lse_.verdict(); }
  std::string out_rule() const {
    char text[128];
    std::snprintf(text, sizeof text, "2^-29*(max(1e-5, 4*2^-23*sqrt(%lld)) + %g*2^-23*S)",
                  static_cast<long long>(n_), hostile_score_factor);
    return text;
  }
  std::string lse_rule() const {
    char text[96];
    std::snprintf(text, sizeof text, "2^-29*(max(1e-5, 2e-6*|lse|) + %g*2^-23*S)", hostile_score_factor);
    return text;
  }

 private:
  std::int64_t n_;
  Collector out_, lse_;
};

}  // namespace gate
}  // namespace runmax
