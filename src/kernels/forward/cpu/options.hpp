// The options of a problem as the CPU engine reads them: in which units scores are, and each row's part of
// the mask, the bias and the slopes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/forward/cpu/elements.hpp"
#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/score_options.hpp"
#include "runmax/dropout.hpp"

namespace runmax::cpu {

class Options {
 public:
  // Where rows that are not neighbours in memory are gathered: block_kv elements each, of one thread.
  struct Buffers {
    float* bias = nullptr;
    std::uint8_t* mask = nullptr;
  };

  Options(const Problem& p, const Tensors& tensors)
      : problem_(p), tensors_(tensors), threshold_(dropout_threshold(p.dropout)) {}

  // Scores are changed, or keys hidden, between the product and the weights.
  static bool transforms(const Problem& p) { return changes_scores(p) || p.mask; }
  static bool hides_keys(const Problem& p) { return p.mask || p.bias; }
  bool transforms() const { return transforms(problem_); }
  bool hides_keys() const { return hides_keys(problem_); }
  bool drops() const { return threshold_ != 0; }

  // The scale of weights and LSE. What is added to scores is in natural units, so the scores are brought to
  // them first; a mask alone leaves them as the product has them.
  ScaleParts weight_scale(const ScaleParts& of_product) const {
    if (!changes_scores(problem_)) return of_product;
    return {of_product.query_factor, 1.4426950408889634f, 1.0};
  }

  ScoreUnits score_units(const ScaleParts& of_product) const {
    ScoreUnits units;
    if (!changes_scores(problem_)) return units;
    units.factor = static_cast<float>(of_product.natural_scale);
    if (problem_.softcap == 0) return units;
    // A cap beyond FP32 caps nothing that fits FP32, one below it leaves nothing; 0 * inf must not come up.
    constexpr double least = std::numeric_limits<float>::min(), most = std::numeric_limits<float>::max();
    const double cap = std::clamp(problem_.softcap, least, most);
    units.softcap = static_cast<float>(cap);
    units.cap_factor = static_cast<float>(std::min(of_product.natural_scale / cap, most));
    return units;
  }

  // What a row does with the keys [first_key + keys.begin, first_key + keys.end). `scores` and what is
  // written beside them are the caller's to set.
  OptionRow row(const RowAddress& at, std::int64_t diagonal_offset, std::int64_t first_key, TileKeys keys,
                const Buffers& buffers) const {
    OptionRow row;
    row.keys = keys;
    if (problem_.bias) row.bias = bias_of(at, first_key, keys, buffers.bias);
    if (problem_.mask) row.mask = neighbours<std::uint8_t>(tensors_.mask, at, first_key, keys, buffers.mask);
    if (problem_.alibi) row.slope = element<float>(tensors_.alibi_slopes, {at.batch, at.head, 0}, 0);
    row.diagonal = at.query + diagonal_offset - first_key;
    return row;
  }

  // False if mask and bias hide all of these keys from the row.
  bool sees_any(const RowAddress& at, std::int64_t first_key, TileKeys keys) const {
    for (std::int64_t j = first_key + keys.begin; j < first_key + keys.end; ++j) {
      if (problem_.mask && element<std::uint8_t>(tensors_.mask, at, j) == 0) continue;
      if (!problem_.bias || bias_at(at, j) != -std::numeric_limits<float>::infinity()) return true;
    }
    return false;
  }

  PhiloxKey dropout_key(const RowAddress& at) const {
    return runmax::dropout_key(tensors_.dropout.seed, tensors_.dropout.offset, at.batch, at.head);
  }
  std::uint32_t dropout_threshold_word() const { return threshold_; }

  RowEnd row_end() const {
    RowEnd end;
    if (problem_.sink) end.sink = &tensors_.sink;
    if (problem_.dropout != 0) end.kept_factor = 1 / (1 - problem_.dropout);
    return end;
  }

 private:
  static bool changes_scores(const Problem& p) { return p.softcap != 0 || p.bias || p.alibi; }

  // A dimension of size 1 is the same for all.
  static std::int64_t stride(const TensorView& view, std::size_t axis) {
    return view.shape[axis] == 1 ? 0 : view.strides[axis];
  }
  template <class T>
  static const T* row_data(const TensorView& view, const RowAddress& at) {
    return static_cast<const T*>(view.data) + at.batch * stride(view, 0) + at.head * stride(view, 1) +
           at.query * stride(view, 2);
  }
  template <class T>
  static T element(const TensorView& view, const RowAddress& at, std::int64_t key) {
    return row_data<T>(view, at)[key * stride(view, 3)];
  }

  ElementRows bias_keys(const RowAddress& at, std::int64_t key) const {
    const TensorView& bias = tensors_.bias;
    const std::int64_t step = stride(bias, 3);
    const std::int64_t place =
        at.batch * stride(bias, 0) + at.head * stride(bias, 1) + at.query * stride(bias, 2) + key * step;
    return {element_at(bias.data, bias.dtype, place), bias.dtype, 0, step};
  }
  float bias_at(const RowAddress& at, std::int64_t key) const {
    if (tensors_.bias.dtype == DType::f32) return element<float>(tensors_.bias, at, key);
    float value = 0;
    element_functions().widen(bias_keys(at, key), 1, 1, &value);
    return value;
  }
  const float* bias_of(const RowAddress& at, std::int64_t first_key, TileKeys keys, float* buffer) const {
    if (tensors_.bias.dtype == DType::f32)
      return neighbours<float>(tensors_.bias, at, first_key, keys, buffer);
    if (keys.begin < keys.end)
      element_functions().widen(bias_keys(at, first_key + keys.begin), 1, keys.end - keys.begin,
                                buffer + keys.begin);
    return buffer;
  }

  // A pointer to the elements of `keys`, as if element 0 were that of first_key.
  template <class T>
  static const T* neighbours(const TensorView& view, const RowAddress& at, std::int64_t first_key,
                             TileKeys keys, T* buffer) {
    const std::int64_t step = stride(view, 3);
    const T* from = row_data<T>(view, at) + first_key * step;
    if (step == 1) return from;
    for (std::int64_t j = keys.begin; j < keys.end; ++j) buffer[j] = from[j * step];
    return buffer;
  }

  const Problem& problem_;
  const Tensors& tensors_;
  std::uint32_t threshold_;
};

}  // namespace runmax::cpu
