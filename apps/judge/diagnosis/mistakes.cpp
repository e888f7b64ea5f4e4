// The table of known mistakes: name, broken line, what happened, what to do.
#include "judge/diagnosis/diagnosis.hpp"

namespace runmax::diagnosis {

std::string_view identity_line(Term term) {
  switch (term) {
    case Term::score:
      return "score = scale * q . k";
    case Term::maximum:
      return "new_max = max(old_max, tile_max), from -inf on";
    case Term::rescale:
      return "rescale = exp(old_max - new_max), for the sum and for the output";
    case Term::weight:
      return "weight = exp(score - new_max)";
    case Term::sum:
      return "sum = sum * rescale + the sum of the tile's weights";
    case Term::output:
      return "output = output * rescale + the tile's weights . V_tile";
    case Term::division:
      return "answer = output / sum, once, after the last tile";
    case Term::lse:
      return "lse = new_max + log(sum)";
    case Term::keys:
      return "for each tile of the keys that the row sees";
    case Term::layout:
      return "q, k, v and the answer are (batch, heads, length, dim), dim fastest";
    case Term::precision:
      return "every product and sum in FP32";
  }
  return "";
}

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> table = {
      {"output-zero", Term::output, "the output is zero everywhere",
       "write the answer of every row to o before the kernel ends"},
      {"mean-of-values", Term::weight,
       "every row is the plain mean of all rows of V: the scores have no effect",
       "weigh each row of V by exp(score - new_max), and divide by the sum of these weights"},
      {"uniform-weights", Term::weight,
       "every key that a row sees weighs the same: the scores have no effect",
       "weigh each row of V by exp(score - new_max), and divide by the sum of these weights"},
      {"best-key-value", Term::weight,
       "every row is the V of its best key alone: the other keys have no effect",
       "add the weighted V of every key, not only of the one with the largest score"},
      {"output-constant", Term::output, "every row of the output is the same",
       "compute each row from its own query; a remembered answer is no answer"},

      {"output-not-rescaled", Term::output, "the output is not rescaled when the maximum moves",
       "multiply every element of the running output by exp(old_max - new_max) before a tile is added"},
      {"sum-not-rescaled", Term::sum, "the sum is not rescaled when the maximum moves",
       "multiply the running sum by exp(old_max - new_max) before a tile's weights are added"},
      {"nothing-rescaled", Term::rescale, "neither the sum nor the output is rescaled when the maximum moves",
       "multiply the running sum and every element of the running output by exp(old_max - new_max)"},
      {"rescale-inverted", Term::rescale, "the rescale factor is upside down: exp(new_max - old_max)",
       "multiply the history by exp(old_max - new_max), which is at most 1"},
      {"no-maximum", Term::maximum,
       "no maximum is subtracted before the exponential, which overflows or underflows",
       "subtract the running maximum from every score before the exponential"},
      {"maximum-started-at-zero", Term::maximum,
       "the maximum starts at 0, which is too large for a row whose scores are all far below 0",
       "start the maximum at -inf; exp(-inf - new_max) = 0 then wipes the empty state"},
      {"normalised-per-tile", Term::division, "the output is normalised per tile instead of once at the end",
       "keep the output undivided while tiles come in, and divide once by the final sum"},
      {"stale-maximum", Term::maximum, "a tile is weighed against the maximum from before it",
       "raise the maximum before the tile's weights are taken and before the sum is updated"},
      {"own-maximum", Term::weight, "a tile is weighed against its own maximum instead of the running one",
       "subtract max(old_max, tile_max) from the scores, not tile_max"},
      {"division-missing", Term::division, "the output is never divided by the sum",
       "divide every element of the output by the sum after the last tile"},
      {"exponential-base-2", Term::weight, "the exponential is to base 2 while the scores are to base e",
       "use exp, or multiply the scores by log2(e) before exp2"},

      {"last-tile-dropped", Term::keys, "the last tile of keys is left out", "round the number of tiles up"},
      {"last-tile-doubled", Term::keys, "the last keys are counted twice",
       "visit each key once: clip the last tile instead of moving or repeating it"},
      {"first-tile-dropped", Term::keys, "the first tile of keys is left out", "start with key 0"},
      {"keys-left-out", Term::keys, "some keys are left out", "visit every key that the row sees"},
      {"keys-counted-twice", Term::keys, "some keys are counted more than once", "visit each key once"},
      {"padding-counted", Term::keys,
       "the padding of the last tile is counted: keys that do not exist enter the sum with score 0",
       "give keys beyond the last one the score -inf, so that they weigh 0"},
      {"values-shifted", Term::keys, "weights are multiplied by the V of a neighbouring key",
       "use row j of V with the weight of key j"},

      {"scale-missing", Term::score, "the scores are not scaled", "multiply each score by the scale"},
      {"scale-of-padded-head-dim", Term::score, "the scale is that of a padded head size",
       "take 1/sqrt of the true head size, however wide the tile is"},
      {"scale-squared", Term::score, "the scale is applied twice, or as 1/d instead of 1/sqrt(d)",
       "multiply each score by the scale once; without a scale of its own that is 1/sqrt(d)"},
      {"scale-wrong", Term::score, "the scores are multiplied by another factor than the scale",
       "multiply each score by the scale"},

      {"key-transposed", Term::layout, "K is read as if it were stored transposed",
       "channel c of key j is k[j * d + c]"},
      {"value-transposed", Term::layout, "V is read as if it were stored transposed",
       "channel c of key j's value is v[j * dv + c]"},
      {"heads-swapped", Term::layout, "heads are mixed up",
       "query head h belongs to KV head h / (heads / kv_heads)"},
      {"rows-swapped", Term::layout, "rows of the output are in each other's place",
       "write the answer of query i to row i"},
      {"dimensions-swapped", Term::layout, "the dimensions of the output are in each other's place",
       "write dimension c of the answer to column c"},

      {"causal-off-by-one", Term::keys, "the causal mask is off by one",
       "query i sees key j if j <= i + sk - sq"},
      {"causal-top-left", Term::keys,
       "the causal mask hangs in the top left corner instead of the bottom right one",
       "query i sees key j if j <= i + sk - sq"},
      {"causal-whole-tiles", Term::keys,
       "the causal mask hides whole tiles only: the tile on the diagonal is seen entirely",
       "hide each key j > i + sk - sq of the tile on the diagonal"},
      {"masked-as-zero", Term::keys, "hidden keys get the score 0 and weigh as much as a key with that score",
       "give a hidden key the score -inf, so that it weighs 0"},
      {"causal-missing", Term::keys, "the causal mask is not applied",
       "query i sees key j if j <= i + sk - sq"},
      {"causal-unasked", Term::keys, "a causal mask is applied that nobody asked for",
       "every query sees every key"},

      {"precision-tf32", Term::precision, "the products are taken in TF32 instead of FP32",
       "use FP32 multiply-adds, or split each operand in two"},
      {"precision-fp16", Term::precision, "values are rounded to fp16 on the way instead of staying in FP32",
       "use FP32 multiply-adds, or split each operand in two"},
      {"precision-bf16", Term::precision, "values are rounded to bf16 on the way instead of staying in FP32",
       "use FP32 multiply-adds, or split each operand in two"},

      {"lse-base-2", Term::lse, "the LSE is a logarithm to base 2",
       "multiply by ln 2: the LSE is a natural logarithm"},
      {"lse-without-maximum", Term::lse, "the LSE lacks the maximum: it is the logarithm of the sum alone",
       "add the maximum to log(sum)"},
  };
  return table;
}

const Mistake* find_mistake(std::string_view name) {
  for (const Mistake& mistake : mistakes())
    if (mistake.name == name) return &mistake;
  return nullptr;
}

}  // namespace runmax::diagnosis
