// What a query row carries between key tiles, and the one merge that all of runmax is built on.
//
// A row that has seen some keys is described by {max, sum, out[value_dim]}: the largest score so far, the sum
// of exp(score - max) over those keys, and the output of the same weights before division. Two such states
// over disjoint keys merge by rescaling each side to the larger max; the merge is associative and {-inf, 0,
// 0} is its neutral element. Milakov and Gimelshein, arXiv 1805.02867; with the output carried along, Dao et
// al., arXiv 2205.14135.
//
// C++17, host and device, freestanding: no allocation, no I/O. The exponential is a policy: any callable
// `Real exp(Real)` with exp(-inf) == 0, exp(0) == 1 and exp(NaN) == NaN.
#ifndef RUNMAX_ONLINE_SOFTMAX_HPP
#define RUNMAX_ONLINE_SOFTMAX_HPP

#include <cmath>

#if defined(__CUDACC__)
#define RUNMAX_HOST_DEVICE __host__ __device__
#else
#define RUNMAX_HOST_DEVICE
#endif

namespace runmax {

// exp from <cmath>; inside a CUDA kernel this is the device's expf or exp.
struct StandardExp {
  RUNMAX_HOST_DEVICE float operator()(float x) const { return ::expf(x); }
  RUNMAX_HOST_DEVICE double operator()(double x) const { return ::exp(x); }
};

// The max of a row that has seen no key. (std::numeric_limits is host code to nvcc.)
template <class Real>
RUNMAX_HOST_DEVICE constexpr Real negative_infinity() {
  return -static_cast<Real>(INFINITY);
}

// The scalar part of a row's state. `max` is -inf until a key is visible.
template <class Real>
struct SoftmaxState {
  Real max = negative_infinity<Real>();
  Real sum = Real(0);
};

// The number to subtract before exp. (-inf) - (-inf) is NaN, so a row whose max is still -inf subtracts 0:
// its weights are exp(-inf) = 0, and a NaN score stays NaN.
template <class Real>
RUNMAX_HOST_DEVICE constexpr Real softmax_shift(Real max) {
  return max == negative_infinity<Real>() ? Real(0) : max;
}

// The larger of two maxima. A NaN score never becomes the max; the sum carries it.
template <class Real>
RUNMAX_HOST_DEVICE constexpr Real softmax_max(Real a, Real b) {
  return (b > a || a != a) ? b : a;
}

// Weight of one score against the state's max: exp(score - max).
template <class Real, class Exp>
RUNMAX_HOST_DEVICE Real softmax_weight(Real score, Real max, Exp exp) {
  return exp(score - softmax_shift(max));
}

// Raises the state's max to cover a tile whose largest score is `tile_max`, and rescales the sum. Returns the
// factor by which the caller rescales the row's output: exp(old max - new max), which is 0 for the first
// tile. The caller then adds the tile's weights, taken against the new max, to state.sum and to the output.
template <class Real, class Exp>
RUNMAX_HOST_DEVICE Real softmax_raise(SoftmaxState<Real>& state, Real tile_max, Exp exp) {
  const Real new_max = softmax_max(state.max, tile_max);
  const Real rescale = exp(state.max - softmax_shift(new_max));
  state.max = new_max;
  state.sum *= rescale;
  return rescale;
}

// Result of merging two states: the merged scalars, and how the outputs of both sides combine.
template <class Real>
struct SoftmaxMerge {
  SoftmaxState<Real> state;
  Real scale_a;
  Real scale_b;
  bool empty_a;
  bool empty_b;

  // One element of the merged output. The output of a side that saw no key is not read, whatever it holds.
  RUNMAX_HOST_DEVICE constexpr Real output(Real a, Real b) const {
    if (empty_a) return empty_b ? Real(0) : b * scale_b;
    return empty_b ? a * scale_a : a * scale_a + b * scale_b;
  }
};

// Merges two states over disjoint keys.
template <class Real, class Exp>
RUNMAX_HOST_DEVICE SoftmaxMerge<Real> softmax_merge(const SoftmaxState<Real>& a, const SoftmaxState<Real>& b,
                                                    Exp exp) {
  SoftmaxMerge<Real> merged;
  merged.state.max = softmax_max(a.max, b.max);
  const Real shift = softmax_shift(merged.state.max);
  merged.scale_a = exp(a.max - shift);
  merged.scale_b = exp(b.max - shift);
  merged.state.sum = a.sum * merged.scale_a + b.sum * merged.scale_b;
  merged.empty_a = a.sum == Real(0);
  merged.empty_b = b.sum == Real(0);
  return merged;
}

// The factor that turns an unnormalised output into the result: 1/sum, and 0 for a row that saw no key.
template <class Real>
RUNMAX_HOST_DEVICE constexpr Real softmax_normalizer(const SoftmaxState<Real>& state) {
  return state.sum == Real(0) ? Real(0) : Real(1) / state.sum;
}

// Natural logarithm of the sum of exp(score); -inf for a row that saw no key.
template <class Real>
RUNMAX_HOST_DEVICE Real softmax_lse(const SoftmaxState<Real>& state) {
  using std::log;
  return state.sum == Real(0) ? negative_infinity<Real>() : state.max + log(state.sum);
}

// A whole row's state with its output in place, for value_dim known at compile time.
template <class Real, int value_dim>
struct AttentionState {
  SoftmaxState<Real> softmax;
  Real out[value_dim] = {};

  // Folds in one visible key; a masked key is simply not added.
  template <class Exp>
  RUNMAX_HOST_DEVICE void add(Real score, const Real* value, Exp exp) {
    const Real rescale = softmax_raise(softmax, score, exp);
    const Real weight = softmax_weight(score, softmax.max, exp);
    softmax.sum += weight;
    for (int c = 0; c < value_dim; ++c) out[c] = out[c] * rescale + weight * value[c];
  }

  // Folds in another state over disjoint keys.
  template <class Exp>
  RUNMAX_HOST_DEVICE void merge(const AttentionState& other, Exp exp) {
    const SoftmaxMerge<Real> merged = softmax_merge(softmax, other.softmax, exp);
    softmax = merged.state;
    for (int c = 0; c < value_dim; ++c) out[c] = merged.output(out[c], other.out[c]);
  }
};

}  // namespace runmax

#endif  // RUNMAX_ONLINE_SOFTMAX_HPP
