// The policy of a problem without options: FP32, every sequence as long as the tensors, causality and
// windows.
#pragma once

#include "kernels/forward/simt/kernel.cuh"

namespace runmax::simt {

struct Plain {
  using Input = DeviceTensor<const float>;
  using Output = DeviceTensor<float>;

  struct Row {
    const float* data;
    std::int64_t channel_stride;
    __device__ float operator[](std::int64_t c) const { return data[c * channel_stride]; }
  };
  struct Rows {
    const float* data;
    std::int64_t row_stride, channel_stride;
    __device__ Row row(std::int64_t i) const { return {data + i * row_stride, channel_stride}; }
  };
  using QueryRows = Rows;
  using KeyRows = Rows;
  struct OutputRow {
    float* data;
    std::int64_t channel_stride;
    __device__ void set(std::int64_t c, float value) const { data[c * channel_stride] = value; }
  };
  struct Ended {
    SoftmaxState<float> state;
    float normalizer;
    __device__ float output(float out) const { return out * normalizer; }
    __device__ float lse() const { return softmax_lse(state); }
  };
  struct Scoring {
    static constexpr bool changes = false;
    __device__ Ended end(const SoftmaxState<float>& state) const {
      return {state, softmax_normalizer(state)};
    }
  };

  template <class Arguments>
  __device__ Sequence sequence(const Arguments& args, std::int64_t b) const {
    return {b, 0, 0, args.query_len, args.keys, false};
  }
  __device__ Rows query_rows(const Input& q, const Sequence& s, std::int64_t head) const {
    return {q.head(s.batch, head), q.row_stride, q.channel_stride};
  }
  __device__ Rows key_rows(const Input& k, const Sequence& s, std::int64_t, std::int64_t head) const {
    return {k.head(s.batch, head), k.row_stride, k.channel_stride};
  }
  __device__ OutputRow output_row(const Output& o, const Sequence& s, std::int64_t head,
                                  std::int64_t i) const {
    return {o.head(s.batch, head) + i * o.row_stride, o.channel_stride};
  }
  template <class Arguments>
  __device__ Scoring scoring(const Arguments&, const Sequence&, std::int64_t, std::int64_t) const {
    return {};
  }
};

}  // namespace runmax::simt
