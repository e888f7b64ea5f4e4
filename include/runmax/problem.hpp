// An attention problem: what is asked, its one text form, its rules, and how much work it is.
#ifndef RUNMAX_PROBLEM_HPP
#define RUNMAX_PROBLEM_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runmax/export.hpp"
#include "runmax/status.hpp"
#include "runmax/tensor.hpp"

namespace runmax {

// Which keys a query sees. With offset = kv_len - query_len for bottom_right and 0 for top_left, key j is
// visible to query i iff j <= i + offset.
enum class Causal : std::int32_t { none = 0, bottom_right = 1, top_left = 2 };

// Inclusive distances on the diagonal: i + offset - left <= j <= i + offset + right; -1 is unbounded. The
// diagonal is that of `Causal`, bottom-right when there is no causal mask.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
  friend bool operator==(const Window&, const Window&) = default;
};

// How products are computed. fp32_grade is the contract's default for f32: any arithmetic that passes both
// bars of docs/numerics.md. ieee is FP32 FMA only; tf32 is one TF32 tensor-core product.
enum class Arithmetic : std::int32_t { fp32_grade = 0, ieee = 1, tf32 = 2 };

// Lengths of one sequence of a packed (varlen) batch.
struct SequenceLengths {
  std::int64_t query_len = 0;
  std::int64_t kv_len = 0;
  friend bool operator==(const SequenceLengths&, const SequenceLengths&) = default;
};

// How the tools draw Q, K and V for a problem. Not part of the mathematics: plan and run ignore it.
enum class InputKind : std::int32_t {
  normal = 0,  // standard normal Q, K and V
  loud = 1,    // the lesson's: key kv_len - 3 is every row's largest score, so the max moves in the last tile
  onesign = 2,  // V in [0.5, 1]
  wide = 3,     // rows of K and V scaled by powers of two over 27 octaves
  equal = 4,    // every score equal: Q = 0
  needle = 5,   // one key holds nearly all the weight, its V row tiny
  rising = 6,   // scores rise strictly with the key index
  falling = 7,  // scores fall strictly
  hot = 8,      // logits of several hundred
};

// "normal", "loud", ...
RUNMAX_API std::string_view input_kind_name(InputKind kind);

// What is asked. Shapes: Q (batch, query_heads, query_len, head_dim), K (batch, kv_heads, kv_len, head_dim),
// V (batch, kv_heads, kv_len, value_dim), O (batch, query_heads, query_len, value_dim),
// LSE (batch, query_heads, query_len).
//
// Score of query i and key j: softmax_scale * q.k, then softcap * tanh(score / softcap), then + bias, then
// ALiBi's - slope * |i + diagonal_offset - j|, then the masks, then softmax. A bias of -inf masks its key, as
// a mask of false does: the key is not visible, whatever K and V hold there. KV head of query head h is
// h / (query_heads / kv_heads), rounded down. A sink is one more score of every row, without a value. LSE is
// the natural log of the sum of exp(score) over the visible keys and the sink. A row that sees no key gives
// O = 0 and LSE = -inf, or the sink.
//
// varlen: Q and O are packed as (1, query_heads, sum of the query lengths, dim), K and V likewise, sequence
// after sequence; causality and window are those of each sequence alone. paged: K and V are pools of pages,
// (pages, kv_heads, page_size, dim). seqused: batch element b has kv_lengths[b] <= kv_len keys, and the
// diagonal is that of its own length.
struct Problem {
  std::int64_t batch = 1;
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t query_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t head_dim = 64;
  std::int64_t value_dim = 64;
  DType dtype = DType::f32;
  Arithmetic arithmetic = Arithmetic::fp32_grade;

  std::optional<double> softmax_scale;  // default 1/sqrt(head_dim)
  Causal causal = Causal::none;
  Window window;
  double softcap = 0.0;        // 0 is off
  bool alibi = false;          // slopes per query head are given with the tensors
  bool sink = false;           // one learned logit per query head joins the denominator
  bool mask = false;           // boolean, true = may attend
  bool bias = false;           // added to the score
  double dropout = 0.0;        // probability of dropping a weight
  std::int64_t page_size = 0;  // tokens per KV page; 0 is not paged
  bool seqused = false;  // the KV length of each batch element is given with the tensors; kv_len bounds it
  std::vector<SequenceLengths>
      varlen;  // packed batch: one entry per sequence; query_len and kv_len are the maxima
  bool batch_invariant = false;

  InputKind input = InputKind::normal;
  std::uint64_t seed = 0;

  friend bool operator==(const Problem&, const Problem&) = default;
};

// The factor before the softcap: softmax_scale, or 1/sqrt(head_dim) of the true head size (1 for head_dim 0,
// where every score is an empty sum).
RUNMAX_API double effective_scale(const Problem& problem);

// Where the diagonal of the causal mask and of the window lies: key j = i + diagonal_offset for query i.
RUNMAX_API std::int64_t diagonal_offset(Causal causal, std::int64_t query_len, std::int64_t kv_len);

// The keys that query row i may see by causality and window: [begin, end), empty when begin == end.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
RUNMAX_API KeyRange visible_keys(Causal causal, Window window, std::int64_t query_len, std::int64_t kv_len,
                                 std::int64_t i);

// Parses the text form, for example "b2:hq32:hk8:q1024:k1024:d128:f32:causal". Fields are separated by ':'
// and may stand in any order; what is left out has its default. An error names field, rule and value.
//
//   bN hN hqN hkN qN kN dN dvN               batch; heads: all, query, KV; lengths; head and value dimension
//   f32 f16 bf16 f64 e4m3 i8 ieee tf32       element type; arithmetic (fp32_grade unless named)
//   causal causal=top_left window=L,R        which keys a query sees (causal is bottom-right unless named)
//   scale=S softcap=C dropout=P paged=N seqused alibi sink mask bias batch_invariant varlen=Q/K,Q/K,...
//   in=KIND seed=N                           how the tools draw the inputs
//
// k defaults to q, hk to hq, dv to d, d to 64; a single number N in varlen is N/N.
RUNMAX_API Result<Problem> parse_problem(std::string_view text);

// The canonical text: fixed order, defaults left out; parse_problem(to_text(p)) == p for every valid p.
RUNMAX_API std::string to_text(const Problem& problem);

// The first broken rule, naming argument, rule and value.
RUNMAX_API Status validate(const Problem& problem);

// Number of (query, key) pairs of one head and batch element, or of the packed batch, that causality and
// window leave visible, summed over batch and query heads. A double: exact up to 2^53.
RUNMAX_API double visible_pairs(const Problem& problem);

// Floating-point operations of forward: 2 * visible_pairs * (head_dim + value_dim); the two matrix products
// only.
RUNMAX_API double forward_flops(const Problem& problem);
RUNMAX_API std::string_view forward_flops_formula();

// Bytes that any exact kernel must move: Q, K and V read once, O and LSE (f32) written once.
RUNMAX_API double minimum_bytes(const Problem& problem);
RUNMAX_API std::string_view minimum_bytes_formula();

// Bytes of the score matrix that runmax never stores: 4 * batch * query_heads * query_len * kv_len.
RUNMAX_API double score_matrix_bytes(const Problem& problem);

}  // namespace runmax

#endif  // RUNMAX_PROBLEM_HPP
