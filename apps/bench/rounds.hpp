// How many rounds of timing a bench takes, and how far it has come.
#pragma once

#include <algorithm>

namespace runmax::bench {

// As many as were asked for; else 15, or what fits into the limit, but 3 at least.
class Rounds {
 public:
  static constexpr int automatic = 15, fewest = 3;

  // asked: 0 is automatic.
  Rounds(int asked, double limit_s)
      : wanted_(asked > 0 ? asked : automatic), limited_(asked == 0), limit_s_(limit_s) {}

  int wanted() const { return wanted_; }

  // Whether `round` rounds in so many seconds are enough.
  bool enough(int round, double seconds) const {
    return round >= wanted_ || (limited_ && round >= fewest && seconds >= limit_s_);
  }

  // Of the work, in [0, 1].
  double share(int round, double seconds) const {
    const double of_rounds = static_cast<double>(round) / wanted_;
    const double of_time = limited_ ? std::min(seconds / limit_s_, static_cast<double>(round) / fewest) : 0;
    return std::min(1.0, std::max(of_rounds, of_time));
  }

 private:
  int wanted_;
  bool limited_;
  double limit_s_;
};

}  // namespace runmax::bench
