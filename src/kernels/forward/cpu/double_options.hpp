// The options of a problem in double, pair by pair: what the double-precision kernels do to scores and
// weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "kernels/forward/cpu/geometry.hpp"
#include "runmax/dropout.hpp"

namespace runmax::cpu {

class DoubleOptions {
 public:
  DoubleOptions(const Problem& p, const Tensors& tensors)
      : problem_(p), tensors_(tensors), threshold_(dropout_threshold(p.dropout)) {}

  // Scores are changed, or keys hidden, between the product and the weights.
  static bool transforms(const Problem& p) { return p.softcap != 0 || p.bias || p.alibi || p.mask; }
  bool transforms() const { return transforms(problem_); }
  bool hides_keys() const { return problem_.mask || problem_.bias; }
  bool drops() const { return threshold_ != 0; }
  double kept_factor() const { return 1 / (1 - problem_.dropout); }

  bool has_sink() const { return problem_.sink; }
  double sink(std::int64_t head) const {
    return static_cast<const float*>(tensors_.sink.data)[head * tensors_.sink.strides[1]];
  }

  struct Score {
    double value = 0;
    double cap_slope = 1;  // derivative of the softcap
    bool visible = true;
  };

  // One row of one head; keys count within the row's sequence.
  class Row {
   public:
    Row(const DoubleOptions& options, const RowAddress& at, std::int64_t diagonal_offset)
        : options_(options),
          at_(at),
          mask_(options.problem_.mask ? options.row_start(options.tensors_.mask, at) : 0),
          bias_(options.problem_.bias ? options.row_start(options.tensors_.bias, at) : 0),
          slope_(options.problem_.alibi ? options.slope(at) : 0),
          diagonal_(at.query + diagonal_offset),
          dropout_key_(runmax::dropout_key(options.tensors_.dropout.seed, options.tensors_.dropout.offset,
                                           at.batch, at.head)) {}

    // From scale * q k, in natural units. What a hidden key's score is does not matter.
    Score score(double scaled, std::int64_t key) const {
      const Problem& p = options_.problem_;
      const Tensors& t = options_.tensors_;
      Score score{scaled, 1, true};
      if (p.mask)
        score.visible = static_cast<const std::uint8_t*>(t.mask.data)[mask_ + key * step(t.mask, 3)] != 0;
      if (p.softcap != 0) {
        const double tanh = std::tanh(scaled / p.softcap), cosh = std::cosh(scaled / p.softcap);
        score.value = p.softcap * tanh;
        score.cap_slope = 1 / (cosh * cosh);
      }
      if (p.bias) {
        const double bias = options_.bias_element(bias_ + key * step(t.bias, 3));
        score.visible = score.visible && bias != -std::numeric_limits<double>::infinity();
        score.value += bias;
      }
      if (p.alibi) score.value -= slope_ * static_cast<double>(std::abs(diagonal_ - key));
      return score;
    }
    bool kept(std::int64_t key) const {
      return dropout_keeps(dropout_key_, options_.threshold_, at_.query, key);
    }

   private:
    const DoubleOptions& options_;
    RowAddress at_;
    std::int64_t mask_, bias_;  // the row's first elements
    double slope_;
    std::int64_t diagonal_;
    PhiloxKey dropout_key_;
  };

 private:
  // A dimension of size 1 is the same for all.
  static std::int64_t step(const TensorView& view, std::size_t axis) {
    return view.shape[axis] == 1 ? 0 : view.strides[axis];
  }
  std::int64_t row_start(const TensorView& view, const RowAddress& at) const {
    return at.batch * step(view, 0) + at.head * step(view, 1) + at.query * step(view, 2);
  }
  double bias_element(std::int64_t place) const {
    if (tensors_.bias.dtype == DType::f64) return static_cast<const double*>(tensors_.bias.data)[place];
    return static_cast<const float*>(tensors_.bias.data)[place];
  }
  double slope(const RowAddress& at) const {
    return static_cast<const float*>(
        tensors_.alibi_slopes.data)[row_start(tensors_.alibi_slopes, {at.batch, at.head, 0})];
  }

  const Problem& problem_;
  const Tensors& tensors_;
  std::uint32_t threshold_;
};

}  // namespace runmax::cpu
