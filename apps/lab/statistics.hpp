// What is kept of a set of time samples: the median and how far the middle half of them spreads.
#pragma once

#include <vector>

namespace runmax::lab {

struct Summary {
  double median = 0;   // in the unit of the samples
  double spread = 0;   // half of the interquartile range over the median; 0 for fewer than 2 samples
  double fastest = 0;  // the smallest sample
  int samples = 0;
};

// All zero for no samples.
Summary summarize(std::vector<double> samples);

}  // namespace runmax::lab
