// Answers of narrower arithmetic: operands of the two products rounded to another type.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>

#include "judge/diagnosis/hypothesis.hpp"

namespace runmax::diagnosis {
namespace {

enum class Narrow { tf32, tf32_cut, fp16, bf16, bf16_cut };

// The nearest number with `kept` mantissa bits fewer than FP32's 23, ties to even; what is not finite stays.
float drop_bits(float value, int dropped, bool nearest) {
  if (!std::isfinite(value)) return value;
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (nearest) bits += (1u << (dropped - 1)) - 1 + ((bits >> dropped) & 1u);
  return std::bit_cast<float>(bits & ~((1u << dropped) - 1));
}

float to_fp16(float value) {
  if (!std::isfinite(value)) return value;
  const float size = std::abs(value);
  if (size >= 65520.0f) return std::copysign(std::numeric_limits<float>::infinity(), value);
  if (size >= 0x1p-14f) return drop_bits(value, 13, true);
  return std::nearbyint(value * 0x1p24f) * 0x1p-24f;  // subnormals: multiples of 2^-24
}

float narrow(float value, Narrow type) {
  switch (type) {
    case Narrow::tf32:
      return drop_bits(value, 13, true);
    case Narrow::tf32_cut:
      return drop_bits(value, 13, false);
    case Narrow::fp16:
      return to_fp16(value);
    case Narrow::bf16:
      return drop_bits(value, 16, true);
    case Narrow::bf16_cut:
      return drop_bits(value, 16, false);
  }
  return value;
}

std::vector<float> narrowed(const float* values, std::int64_t count, Narrow type) {
  std::vector<float> result(values, values + count);
  for (float& value : result) value = narrow(value, type);
  return result;
}

// K and V of a head in the narrow type, and the scores of a row, kept for the hypotheses that share them.
class Operands {
 public:
  explicit Operands(Narrow type) : type_(type) {}

  const float* v(const RowInputs& row) { return matrix(row.v, row.kv_len() * row.value_dim()).data(); }

  const std::vector<float>& scores(const RowInputs& row) {
    auto [at, is_new] = scores_.try_emplace(row.q);
    if (is_new) {
      const std::vector<float> q = narrowed(row.q, row.head_dim(), type_);
      at->second = scores_of(q.data(), matrix(row.k, row.kv_len() * row.head_dim()).data(), row.kv_len(),
                             row.head_dim(), static_cast<float>(row.call->scale()));
    }
    return at->second;
  }

 private:
  const std::vector<float>& matrix(const float* values, std::int64_t count) {
    auto [at, is_new] = matrices_.try_emplace({values, count});
    if (is_new) at->second = narrowed(values, count, type_);
    return at->second;
  }

  Narrow type_;
  std::map<std::pair<const float*, std::int64_t>, std::vector<float>> matrices_;
  std::map<const float*, std::vector<float>> scores_;
};

// Weights as an online kernel rounds them: against the maximum that ran when their tile was taken. Tile 0:
// against the maximum of the row.
Weights narrow_weights(const std::vector<float>& scores, KeyRange keys, std::int64_t tile, Narrow type,
                       bool sum_narrow) {
  Weights weights = softmax_weights(scores, keys);
  const std::int64_t width = tile > 0 ? tile : std::max<std::int64_t>(keys.end - keys.begin, 1);
  float final_max = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = keys.begin; j < keys.end; ++j)
    final_max = std::max(final_max, scores[static_cast<std::size_t>(j)]);
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
  for (std::int64_t first = keys.begin; first < keys.end; first += width) {
    const std::int64_t last = std::min(first + width, keys.end);
    for (std::int64_t j = first; j < last; ++j) max = std::max(max, scores[static_cast<std::size_t>(j)]);
    const float to_final = std::exp(max - final_max);
    for (std::int64_t j = first; j < last; ++j) {
      const float weight = std::exp(scores[static_cast<std::size_t>(j)] - max);
      const float rounded = narrow(weight, type);
      weights.weight[static_cast<std::size_t>(j - keys.begin)] = rounded * to_final;
      sum += (sum_narrow ? rounded : weight) * to_final;
    }
  }
  weights.divisor = sum;
  return weights;
}

}  // namespace

void add_precision(Hypotheses& list, const std::vector<std::int64_t>& tiles) {
  struct Type {
    Narrow narrow;
    const char* mistake;
    const char* cut;
  };
  for (const Type& type :
       {Type{Narrow::tf32, "precision-tf32", ""}, Type{Narrow::tf32_cut, "precision-tf32", ", cut off"},
        Type{Narrow::fp16, "precision-fp16", ""}, Type{Narrow::bf16, "precision-bf16", ""},
        Type{Narrow::bf16_cut, "precision-bf16", ", cut off"}}) {
    const Narrow narrow_type = type.narrow;
    const auto operands = std::make_shared<Operands>(narrow_type);
    const auto add = [&](const std::string& what, auto predict) {
      list.push_back({find_mistake(type.mistake), what + type.cut,
                      [predict, operands](const RowInputs& row, Prediction& prediction) {
                        if (row.keys.begin == row.keys.end) return false;
                        predict(row, *operands, prediction);
                        return true;
                      }});
    };
    add("q and k", [](const RowInputs& row, Operands& o, Prediction& p) {
      mix(softmax_weights(o.scores(row), row.keys), row.v, row.value_dim(), p);
    });
    add("q, k and v", [](const RowInputs& row, Operands& o, Prediction& p) {
      mix(softmax_weights(o.scores(row), row.keys), o.v(row), row.value_dim(), p);
    });
    add("v", [](const RowInputs& row, Operands& o, Prediction& p) {
      mix(softmax_weights(row.scores, row.keys), o.v(row), row.value_dim(), p);
    });
    add("the answer", [narrow_type](const RowInputs& row, Operands&, Prediction& p) {
      mix(softmax_weights(row.scores, row.keys), row.v, row.value_dim(), p);
      for (float& value : p.out) value = narrow(value, narrow_type);
    });
    add("the scores", [narrow_type](const RowInputs& row, Operands&, Prediction& p) {
      std::vector<float> scores = row.scores;
      for (float& score : scores) score = narrow(score, narrow_type);
      mix(softmax_weights(scores, row.keys), row.v, row.value_dim(), p);
    });
    std::vector<std::int64_t> widths{0};
    for (const std::int64_t tile : tiles)
      if (tile >= 16) widths.push_back(tile);
    for (const std::int64_t tile : widths) {
      const std::string of = tile > 0 ? " (key tile " + std::to_string(tile) + ")" : "";
      for (const bool sum_narrow : {false, true}) {
        const std::string weights = (sum_narrow ? "weights, also in the sum" : "weights") + of;
        add("q, k, v and " + weights, [=](const RowInputs& row, Operands& o, Prediction& p) {
          mix(narrow_weights(o.scores(row), row.keys, tile, narrow_type, sum_narrow), o.v(row),
              row.value_dim(), p);
        });
        add("v and " + weights, [=](const RowInputs& row, Operands& o, Prediction& p) {
          mix(narrow_weights(row.scores, row.keys, tile, narrow_type, sum_narrow), o.v(row), row.value_dim(),
              p);
        });
      }
    }
  }
}

}  // namespace runmax::diagnosis
