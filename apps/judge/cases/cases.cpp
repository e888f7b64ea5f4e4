// The list of cases: names, reasons, shapes, data.
#include <algorithm>
#include <cmath>

#include "judge/cases/case.hpp"
#include "judge/cases/draw.hpp"

namespace runmax::judge {
namespace {

using diagnosis::Bound;

// One head and a square shape unless said otherwise.
Problem problem_of(std::int64_t query_len, std::int64_t kv_len, std::int64_t head_dim) {
  Problem p;
  p.query_len = query_len;
  p.kv_len = kv_len;
  p.head_dim = p.value_dim = head_dim;
  return p;
}

class List {
 public:
  explicit List(const Manifest& manifest) : m_(manifest), dim_(manifest.head_dims.front()) {
    if (m_.serves_dim(64)) dim_ = 64;
  }

  // The nearest length of the claim that is not shorter, or else the longest.
  std::int64_t fit(std::int64_t n) const {
    const std::int64_t up = (std::max(n, m_.shortest) + m_.multiple_of - 1) / m_.multiple_of * m_.multiple_of;
    return up <= m_.longest ? up : m_.longest / m_.multiple_of * m_.multiple_of;
  }

  // Several tiles and a part of one, if the claim allows parts.
  std::int64_t usual() const {
    const std::int64_t tiles = std::clamp<std::int64_t>(256 / m_.key_tile, 3, 8);
    return fit(tiles * m_.key_tile + 5);
  }

  void add(std::string name, std::string reason, Draw draw, Bound bound = Bound::hostile, std::int64_t n = 0,
           Sequence sequence = Sequence::placements) {
    const std::int64_t length = n > 0 ? n : usual();
    add(std::move(name), std::move(reason), std::move(draw), bound, problem_of(length, length, dim_),
        sequence);
  }
  void add(std::string name, std::string reason, Draw draw, Bound bound, const Problem& problem,
           Sequence sequence = Sequence::placements) {
    const bool inside = m_.outside(problem).empty();
    if (inside == (sequence == Sequence::refusal)) return;
    const bool known = std::any_of(list_.begin(), list_.end(), [&](const Case& c) { return c.name == name; });
    if (!known)
      list_.push_back({std::move(name), std::move(reason), problem, bound, sequence, std::move(draw)});
  }

  void exercise() {
    for (const std::int64_t n : {1024, 256, 64})
      add("exercise-" + std::to_string(n),
          "the exercise's own data: key n-3 is every row's largest score, so the maximum moves in the last "
          "tile",
          of_kind(InputKind::loud), Bound::lesson, n, n > 512 ? Sequence::twice : Sequence::placements);
  }

  void maxima() {
    const std::int64_t tile = m_.key_tile, n = usual();
    add("loud-last", "the largest score comes last", loud_at(-1), Bound::lesson);
    add("loud-first", "the largest score comes first, and every later tile is small but needed", loud_at(0),
        Bound::lesson);
    add("loud-every-tile", "every tile brings a new largest score, so the maximum moves each time",
        with_scores(
            [tile](std::int64_t j, std::int64_t) {
              const std::int64_t rank = j / tile + (j % tile == tile / 2 ? 2 : 0);
              return static_cast<double>(rank);
            },
            0.25));
    add("rising", "scores rise strictly with the key", of_kind(InputKind::rising));
    add("falling", "scores fall strictly with the key", of_kind(InputKind::falling));
    add("equal", "all scores are the same", of_kind(InputKind::equal));
    add("two-equal-maxima", "two keys in different tiles share the largest score", equal_maxima(0.1, 0.9));
    for (const std::int64_t key :
         {std::int64_t{0}, tile - 1, tile, 2 * tile - 1, n - n % tile - 1, n - n % tile, n - 1})
      if (key >= 0 && key < n)
        add("needle-at-" + std::to_string(key), "half of all weight lies on a key at the edge of a tile",
            loud_at(key), Bound::lesson, n);
    add("needle-everywhere", "every key is the one that some query looks for", needle_for_every_query());
    add("long-tail", "the weight of key j falls like 1/(1+j): no tile may be left out",
        with_scores([](std::int64_t j, std::int64_t) { return -std::log(1.0 + static_cast<double>(j)); },
                    0.25));
  }

  void sizes_of_scores() {
    const auto mixed = [](double size) {
      return with_scores(
          [size](std::int64_t j, std::int64_t n) { return j % 3 == 0 || j == n - 1 ? size : -size; }, 1.0);
    };
    const auto around = [](double size) {
      return with_scores([size](std::int64_t, std::int64_t) { return size; }, 1.5);
    };
    add("logits-100", "exp(100) overflows FP32: the maximum must be subtracted", around(100));
    add("logits-300", "logits of +300 and -300", mixed(300));
    add("logits-20000", "logits of +20000 and -20000", mixed(20000));
    add("negative-90", "all scores near -90, where exp underflows bit by bit", around(-90));
    add("negative-1000", "all scores near -1000: a maximum that starts at 0 is never replaced",
        around(-1000));
    add("wide", "rows of K and V over 27 octaves", of_kind(InputKind::wide));
    add("low-bits", "keys that differ only below the bits of TF32 and BF16", low_bits());
  }

  void values() {
    add("values-one-sign", "V in [0.5, 1]: nothing cancels", loud_with(Values::one_sign));
    add("values-alternating", "V of alternating sign: nearly everything cancels",
        loud_with(Values::alternating));
    add("values-tiny", "V near 2^-100: an absolute tolerance would accept zeros", loud_with(Values::tiny));
    add("normal", "standard normal Q, K and V", of_kind(InputKind::normal), Bound::lesson);
  }

  void shapes() {
    const std::int64_t tile = m_.key_tile;
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{2}, tile - 1, tile, tile + 1, 2 * tile,
                                 std::int64_t{61}, std::int64_t{127}, std::int64_t{257}})
      if (n > 0 && m_.serves_length(n))
        add("length-" + std::to_string(n),
            n == 1 ? "a single key" : "a length at the edge of a tile, or prime", of_kind(InputKind::loud),
            Bound::lesson, n);
    if (m_.shortest > 1)
      add("shortest", "the shortest length that is claimed", of_kind(InputKind::loud), Bound::lesson,
          fit(m_.shortest));
    for (const std::int64_t d : m_.head_dims)
      if (d != dim_)
        add("head-dim-" + std::to_string(d), "another head size that is claimed", of_kind(InputKind::loud),
            Bound::lesson, problem_of(fit(3 * tile + 1), fit(3 * tile + 1), d));
    const auto pair = [&](std::int64_t sq, std::int64_t sk) { return problem_of(fit(sq), fit(sk), dim_); };
    const auto unequal = [&](const char* name, std::int64_t sq, std::int64_t sk, const char* reason) {
      add(name, reason, of_kind(InputKind::loud), Bound::lesson, pair(sq, sk));
    };
    unequal("fewer-queries", 33, 100, "fewer queries than keys");
    unequal("fewer-keys", 100, 33, "fewer keys than queries");
    unequal("one-query", 1, 257, "one query, as in decoding");
    const auto causal = [&](const char* name, Problem p, const char* reason) {
      p.causal = Causal::bottom_right;
      add(name, reason, of_kind(InputKind::normal), Bound::lesson, p);
    };
    causal("causal", pair(usual(), usual()), "key j is visible to query i iff j <= i");
    causal("causal-fewer-queries", pair(33, 100), "the diagonal ends in the last row and the last key");
    causal("causal-rows-see-nothing", pair(100, 33),
           "rows before the diagonal see no key: they are 0, never NaN");
    Problem heads = pair(2 * tile + 1, 2 * tile + 1);
    heads.batch = 2;
    heads.query_heads = heads.kv_heads = 3;
    add("heads", "two batch elements of three heads", of_kind(InputKind::loud), Bound::lesson, heads);
    heads.query_heads = 6;
    heads.kv_heads = 2;
    add("grouped-heads", "three query heads share a KV head", of_kind(InputKind::loud), Bound::lesson, heads);
  }

  void history() {
    const std::int64_t n = fit(3 * m_.key_tile);
    add("same-buffers", "other data in the same buffers, then the first data elsewhere",
        of_kind(InputKind::loud), Bound::lesson, n, Sequence::same_buffers);
    add("many-calls", "twelve calls, each with data of its own", of_kind(InputKind::loud), Bound::lesson, n,
        Sequence::many_calls);
    add("memory-growth", "no n by n allocation anywhere: what it holds at one length and at twice that",
        of_kind(InputKind::loud), Bound::lesson, fit(512), Sequence::memory_growth);
  }

  // A kernel of the device tier has no way to refuse, and is never launched outside of its claim.
  void refusals() {
    if (m_.tier == Tier::device) return;
    const std::int64_t n = fit(2 * m_.key_tile);
    const auto refuse = [&](const char* name, const Problem& p, const char* reason) {
      add(name, reason, of_kind(InputKind::normal), Bound::hostile, p, Sequence::refusal);
    };
    const char* const reason = "outside of the claim: to be refused, or served right";
    Problem p = problem_of(n, n, dim_);
    p.causal = Causal::bottom_right;
    refuse("refuses-causal", p, reason);
    p = problem_of(n, n, dim_);
    p.query_heads = p.kv_heads = 2;
    refuse("refuses-heads", p, reason);
    if (m_.heads == Heads::any) {
      p.kv_heads = 1;
      refuse("refuses-grouped-heads", p, reason);
    }
    refuse("refuses-unequal", problem_of(fit(n / 2), n + m_.multiple_of, dim_), reason);
    refuse("refuses-length", problem_of(n + 1, n + 1, dim_), reason);
    refuse("refuses-head-dim", problem_of(n, n, dim_ + 1), reason);
  }

  std::vector<Case> take() { return std::move(list_); }

 private:
  const Manifest& m_;
  std::int64_t dim_;
  std::vector<Case> list_;
};

}  // namespace

std::vector<Case> cases_for(const Manifest& manifest) {
  List list(manifest);
  list.exercise();
  list.maxima();
  list.sizes_of_scores();
  list.values();
  list.shapes();
  list.history();
  list.refusals();
  return list.take();
}

}  // namespace runmax::judge
