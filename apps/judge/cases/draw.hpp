// Data of the hostile cases, for one head or for each of several.
#pragma once

#include <cstdint>
#include <functional>

#include "judge/cases/data.hpp"

namespace runmax::judge {

using Draw = std::function<void(const Problem&, std::uint64_t seed, Inputs&)>;

// The kinds that `runmax check` draws: in=loud, equal, ...
Draw of_kind(InputKind kind);

// The lesson's data with the loud key at `key` (negative: from the end) instead of at n - 3.
Draw loud_at(std::int64_t key);

// Every query gives key j about the score target(j, kv_len), give or take `noise`; V is standard normal.
Draw with_scores(std::function<double(std::int64_t j, std::int64_t kv_len)> target, double noise);

// Of two places (as fractions of the length) the keys are the same and the largest of all.
Draw equal_maxima(double first, double second);

// Every key is the needle of some query.
Draw needle_for_every_query();

// Scores of about `size` that differ only in the bits below 2^-12 of K.
Draw low_bits();

enum class Values { one_sign, alternating, tiny };
// The lesson's data with other values.
Draw loud_with(Values values);

}  // namespace runmax::judge
