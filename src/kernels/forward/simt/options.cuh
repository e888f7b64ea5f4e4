// The policy of a problem with options, all of them run-time fields: 16-bit types, masks, biases, softcap,
// ALiBi, sink, dropout, packed sequences, pages, lengths in device memory (docs/decisions/0005).
#pragma once

#include "device/tile/any_element.cuh"
#include "kernels/forward/simt/kernel.cuh"
#include "runmax/dropout.hpp"

namespace runmax::simt {

// Where a sequence of a packed batch begins, and its lengths. Written by write_ranges_kernel.
struct SequenceRange {
  std::int64_t query_start, kv_start, query_len, kv_len;
};

struct WithOptions {
  using Input = AnyTensor;
  using Output = AnyTensor;

  const SequenceRange* ranges;     // null: all sequences are as long as the tensors
  const std::int32_t* kv_lengths;  // null: not given
  std::int64_t kv_lengths_stride;
  bool top_left;  // the diagonal of causality, windows and ALiBi begins at key 0

  const std::int32_t* page_table;                   // null: K and V are not paged
  std::int64_t page_table_stride, page_table_step;  // from batch element to batch element, from page to page
  std::int64_t page_size, pages, table_pages;

  float softcap, cap_factor;           // score = softcap * tanh(cap_factor * product); softcap 0: none
  AnyTensor bias, mask, slopes, sink;  // data null: none. The mask's elements are bytes
  std::uint64_t dropout_seed, dropout_offset;
  std::uint32_t dropout_threshold;  // 0: none
  double kept_factor;               // of a weight that dropout kept

  // A row of Q, or of K or V in its page. Null: its page does not exist, and it reads as NaN, so that no
  // answer is made from another page.
  struct Row {
    const void* data;
    DType dtype;
    std::int64_t start, channel_stride;
    __device__ float operator[](std::int64_t c) const {
      return data ? read_element(data, dtype, start + c * channel_stride) : NAN;
    }
  };

  struct QueryRows {
    AnyTensor q;
    std::int64_t start;
    __device__ Row row(std::int64_t i) const {
      return {q.data, q.dtype, start + i * q.row_stride, q.channel_stride};
    }
  };

  struct KeyRows {
    AnyTensor k;
    std::int64_t start;         // of the head: in the sequence, or in a page
    const std::int32_t* table;  // of the batch element; null: rows lie one after the other
    std::int64_t table_step, page_size, pages, table_pages;
    __device__ Row row(std::int64_t j) const {
      if (!table) return {k.data, k.dtype, start + j * k.row_stride, k.channel_stride};
      const std::int64_t column = j / page_size;
      const std::int64_t page = column < table_pages ? table[column * table_step] : -1;
      if (page < 0 || page >= pages) return {nullptr, k.dtype, 0, 0};
      return {k.data, k.dtype, start + page * k.batch_stride + (j - column * page_size) * k.row_stride,
              k.channel_stride};
    }
  };

  struct OutputRow {
    AnyTensor o;
    std::int64_t start;
    __device__ void set(std::int64_t c, float value) const {
      write_element(o.data, o.dtype, start + c * o.channel_stride, value);
    }
  };

  struct Ended {
    float normalizer;
    double kept;  // times this: what a sink and dropout make of it
    float log_sum;
    __device__ float output(float out) const {
      const float value = out * normalizer;
      return kept == 1 ? value : static_cast<float>(kept * static_cast<double>(value));
    }
    __device__ float lse() const { return log_sum; }
  };

  // What becomes of the scores of one head.
  struct Scoring {
    static constexpr bool changes = true;
    float scale, softcap, cap_factor, slope;
    std::int64_t offset;  // of the diagonal
    AnyTensor bias, mask;
    std::int64_t bias_start, mask_start;
    PhiloxKey dropout;
    std::uint32_t threshold;
    double kept_factor, sink;
    bool has_sink, broken;

    // From the product of query i and key j to the score; false if the key is hidden. In the order of the
    // contract: scale, softcap, bias, ALiBi, mask.
    __device__ bool change(float& score, std::int64_t i, std::int64_t j) const {
      if (mask.data && static_cast<const std::uint8_t*>(
                           mask.data)[mask_start + i * mask.row_stride + j * mask.channel_stride] == 0)
        return false;
      const bool capped = softcap != 0.0f;
      if (capped) score = softcap * tanhf(cap_factor * score);
      if (bias.data) {
        const float added =
            read_element(bias.data, bias.dtype, bias_start + i * bias.row_stride + j * bias.channel_stride);
        if (added == -INFINITY) return false;
        score = capped ? score + added : fmaf(score, scale, added);
      } else if (!capped) {
        score *= scale;
      }
      if (slope != 0.0f) {
        const std::int64_t distance = i + offset - j;
        score = fmaf(-slope, static_cast<float>(distance < 0 ? -distance : distance), score);
      }
      return true;
    }

    __device__ float kept(float weight, std::int64_t i, std::int64_t j) const {
      if (threshold == 0) return weight;
      // As dropout_keeps, without an index that would put the four words into memory.
      const PhiloxCounter words = philox(dropout_counter(i, j / 4), dropout);
      const std::uint32_t low = j & 1 ? words.word[1] : words.word[0];
      const std::uint32_t high = j & 1 ? words.word[3] : words.word[2];
      return (j & 2 ? high : low) >= threshold ? weight : 0.0f;
    }

    // In double where a sink joins: once a row, and a sink far above all scores leaves an output that is
    // small, not 0.
    __device__ Ended end(const SoftmaxState<float>& state) const {
      if (broken) return {NAN, 1, NAN};
      const float normalizer = softmax_normalizer(state);
      if (!has_sink) return {normalizer, kept_factor, softmax_lse(state)};
      const double max = state.sum == 0.0f ? -INFINITY : static_cast<double>(state.max);
      const double top = softmax_max(max, sink);
      const double of_keys = state.sum == 0.0f ? 0.0 : static_cast<double>(state.sum) * exp(max - top);
      const double total = of_keys + exp(sink - softmax_shift(top));
      if (total == 0) return {normalizer, 0, -INFINITY};
      return {normalizer, kept_factor * (of_keys / total), static_cast<float>(top + log(total))};
    }
  };

  template <class Arguments>
  __device__ Sequence sequence(const Arguments& args, std::int64_t b) const {
    Sequence s{b, 0, 0, args.query_len, args.keys, false};
    if (ranges) {
      const SequenceRange range = ranges[b];
      s.batch = 0;
      s.query_start = range.query_start;
      s.kv_start = range.kv_start;
      s.query_len = range.query_len;
      s.keys.kv_len = range.kv_len;
    }
    if (kv_lengths) {
      const std::int64_t used = kv_lengths[b * kv_lengths_stride];
      s.broken = used < 0 || used > s.keys.kv_len;
      s.keys.kv_len = s.broken ? 0 : used;
    }
    s.keys.offset = top_left ? 0 : s.keys.kv_len - s.query_len;
    return s;
  }
  __device__ QueryRows query_rows(const Input& q, const Sequence& s, std::int64_t head) const {
    return {q, q.at(s.batch, head, s.query_start)};
  }
  __device__ KeyRows key_rows(const Input& k, const Sequence& s, std::int64_t b, std::int64_t head) const {
    if (!page_table) return {k, k.at(s.batch, head, s.kv_start), nullptr, 0, 0, 0, 0};
    return {k,     k.at(0, head, 0), page_table + b * page_table_stride, page_table_step, page_size,
            pages, table_pages};
  }
  __device__ OutputRow output_row(const Output& o, const Sequence& s, std::int64_t head,
                                  std::int64_t i) const {
    return {o, o.at(s.batch, head, s.query_start + i)};
  }
  template <class Arguments>
  __device__ Scoring scoring(const Arguments& args, const Sequence& s, std::int64_t b, std::int64_t h) const {
    Scoring scoring{};
    scoring.scale = args.scale;
    scoring.softcap = softcap;
    scoring.cap_factor = cap_factor;
    scoring.slope = slopes.data ? read_element(slopes.data, DType::f32, slopes.at(b, h, 0)) : 0.0f;
    scoring.offset = s.keys.offset;
    scoring.bias = bias;
    scoring.mask = mask;
    scoring.bias_start = bias.at(b, h, 0);
    scoring.mask_start = mask.at(b, h, 0);
    scoring.threshold = dropout_threshold;
    if (dropout_threshold != 0) scoring.dropout = dropout_key(dropout_seed, dropout_offset, b, h);
    scoring.kept_factor = kept_factor;
    scoring.has_sink = sink.data != nullptr;
    if (scoring.has_sink) scoring.sink = read_element(sink.data, DType::f32, sink.at(0, h, 0));
    scoring.broken = s.broken;
    return scoring;
  }
};

struct RangesArguments {
  SequenceRange ranges[ranges_a_launch];
  SequenceRange* to;
  int count;
};
static_assert(sizeof(RangesArguments) <= 4096, "what a kernel's arguments may take");

// Lengths come from the host and must be on the device before the next kernel, in a captured graph too: a
// copy would hold the host's memory, arguments are copied.
__global__ void __launch_bounds__(128) write_ranges_kernel(const RangesArguments args) {
  const int at = static_cast<int>(threadIdx.x);
  if (at < args.count) args.to[at] = args.ranges[at];
}

}  // namespace runmax::simt
