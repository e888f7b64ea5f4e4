// New data for every timed call from one reference: queries and keys change places, columns of V change sign,
// and V is multiplied by a power of two. All of that is exact, so the right answer is known without work.
#pragma once

#include <cstdint>
#include <vector>

#include "inputs/random.hpp"
#include "judge/cases/data.hpp"

namespace runmax::judge {

struct Variant {
  std::vector<std::int64_t> query, key;  // row i of the new Q is row query[i] of the base's
  std::vector<float> factor;             // of each column of V
};

class FreshData {
 public:
  // One head of the lesson's data. Beyond `full_rows` queries the reference is computed for a sample of them;
  // which rows of a variant these are, only the judge knows.
  FreshData(const Problem& problem, std::uint64_t seed, std::int64_t full_rows, int threads);

  Variant variant(inputs::Random& random) const;
  void write(const Variant& variant, float* q, float* k, float* v) const;

  // The first wrong element of an output as a sentence, or "".
  std::string wrong(const Variant& variant, const float* out) const;
  std::int64_t checked_rows() const { return static_cast<std::int64_t>(rows_.size()); }

 private:
  Problem problem_;
  Inputs base_;
  std::vector<std::int64_t> rows_;
  std::vector<reference::Row<double>> want_;
};

}  // namespace runmax::judge
