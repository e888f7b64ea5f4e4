#include "judge/cases/draw.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "inputs/draw.hpp"

namespace runmax::judge {
namespace {

using inputs::head_stream;
using inputs::Operand;
using inputs::Random;

void take(const Problem& problem, InputKind kind, std::uint64_t seed, Inputs& out) {
  Problem p = problem;
  p.input = kind;
  p.seed = seed;
  inputs::HostInputs drawn = inputs::draw(p);
  out.q = std::move(drawn.q);
  out.k = std::move(drawn.k);
  out.v = std::move(drawn.v);
}

// visit(k, v, random) for every KV head, on normal data.
template <class Visit>
void each_kv_head(const Problem& p, std::uint64_t seed, Inputs& out, Visit visit) {
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.kv_heads; ++h) {
      const std::int64_t head = b * p.kv_heads + h;
      visit(out.k.data() + head * p.kv_len * p.head_dim, out.v.data() + head * p.kv_len * p.value_dim,
            head_stream(seed ^ 0x6a75646765ull, Operand::k, b, h));
    }
}

// Q's channel 0, the same for all queries, through which with_scores sets scores.
float common_channel(const Problem& p) { return static_cast<float>(std::sqrt(4.0 / effective_scale(p))); }

void draw_common_queries(const Problem& p, Inputs& out) {
  const float common = common_channel(p);
  for (std::size_t i = 0; i < out.q.size(); i += static_cast<std::size_t>(p.head_dim)) out.q[i] = common;
}

}  // namespace

Draw of_kind(InputKind kind) {
  return [kind](const Problem& p, std::uint64_t seed, Inputs& out) { take(p, kind, seed, out); };
}

Draw loud_at(std::int64_t key) {
  return [key](const Problem& p, std::uint64_t seed, Inputs& out) {
    take(p, InputKind::loud, seed, out);
    const std::int64_t from = inputs::loud_key(p.kv_len);
    const std::int64_t to = std::clamp<std::int64_t>(key < 0 ? p.kv_len + key : key, 0, p.kv_len - 1);
    if (from == to) return;
    each_kv_head(p, seed, out, [&](float* k, float*, Random) {
      std::swap_ranges(k + from * p.head_dim, k + (from + 1) * p.head_dim, k + to * p.head_dim);
    });
  };
}

Draw with_scores(std::function<double(std::int64_t, std::int64_t)> target, double noise) {
  return [target = std::move(target), noise](const Problem& p, std::uint64_t seed, Inputs& out) {
    take(p, InputKind::normal, seed, out);
    draw_common_queries(p, out);
    const double scale = effective_scale(p), common = common_channel(p);
    const double spread =
        noise / (scale * std::sqrt(static_cast<double>(std::max<std::int64_t>(p.head_dim - 1, 1))));
    each_kv_head(p, seed, out, [&](float* k, float*, Random) {
      for (std::int64_t j = 0; j < p.kv_len; ++j) {
        float* const key = k + j * p.head_dim;
        key[0] = static_cast<float>(target(j, p.kv_len) / (scale * common));
        for (std::int64_t c = 1; c < p.head_dim; ++c) key[c] *= static_cast<float>(spread);
      }
    });
  };
}

Draw equal_maxima(double first, double second) {
  return [first, second](const Problem& p, std::uint64_t seed, Inputs& out) {
    take(p, InputKind::loud, seed, out);
    const auto at = [&](double share) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(share * static_cast<double>(p.kv_len)), 0,
                                      p.kv_len - 1);
    };
    const std::int64_t from = inputs::loud_key(p.kv_len);
    each_kv_head(p, seed, out, [&](float* k, float*, Random) {
      const std::vector<float> loud(k + from * p.head_dim, k + (from + 1) * p.head_dim);
      std::swap_ranges(k + from * p.head_dim, k + (from + 1) * p.head_dim, k + at(first) * p.head_dim);
      std::copy(loud.begin(), loud.end(), k + at(second) * p.head_dim);
    });
  };
}

Draw needle_for_every_query() {
  return [](const Problem& p, std::uint64_t seed, Inputs& out) {
    take(p, InputKind::normal, seed, out);
    // q.k is then about head_dim for the needle and sqrt(head_dim) for another key; the factor makes
    // scores 8.
    const float factor = static_cast<float>(8.0 / (effective_scale(p) * static_cast<double>(p.head_dim)));
    const std::int64_t group = p.query_heads / p.kv_heads;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t h = 0; h < p.query_heads; ++h)
        for (std::int64_t i = 0; i < p.query_len; ++i) {
          const std::int64_t j = (i * 37 + 11) % std::max<std::int64_t>(p.kv_len, 1);
          const float* key = out.k.data() + ((b * p.kv_heads + h / group) * p.kv_len + j) * p.head_dim;
          float* query = out.q.data() + ((b * p.query_heads + h) * p.query_len + i) * p.head_dim;
          for (std::int64_t c = 0; c < p.head_dim; ++c) query[c] = factor * key[c];
        }
  };
}

Draw low_bits() {
  return [](const Problem& p, std::uint64_t seed, Inputs& out) {
    take(p, InputKind::normal, seed, out);
    // Channel 0 of K is 4 (1 + r / 4096), and of Q so large that r alone decides the score.
    // The other channels are multiples of 1/8: their sum, and theirs with the large product, is exact in FP32
    // in any order, so that an honest kernel has no rounding that hides r.
    const auto large = static_cast<float>(4096 / effective_scale(p) / 4 * 2);
    const auto eighths = [](float x) { return std::nearbyint(8 * x) / 8; };
    for (std::size_t i = 0; i < out.q.size(); ++i)
      out.q[i] = i % static_cast<std::size_t>(p.head_dim) == 0 ? large : eighths(out.q[i]);
    each_kv_head(p, seed, out, [&](float* k, float*, Random) {
      for (std::int64_t j = 0; j < p.kv_len; ++j) {
        float* const key = k + j * p.head_dim;
        key[0] = 4 * (1 + key[0] / 4096);
        for (std::int64_t c = 1; c < p.head_dim; ++c) key[c] = eighths(0.25f * key[c]);
      }
    });
  };
}

Draw loud_with(Values values) {
  return [values](const Problem& p, std::uint64_t seed, Inputs& out) {
    take(p, InputKind::loud, seed, out);
    each_kv_head(p, seed, out, [&](float*, float* v, Random random) {
      for (std::int64_t j = 0; j < p.kv_len; ++j)
        for (std::int64_t c = 0; c < p.value_dim; ++c) {
          float& value = v[j * p.value_dim + c];
          if (values == Values::one_sign) value = random.uniform(0.5f, 1.0f);
          if (values == Values::alternating) value = (j % 2 == 0 ? 1.0f : -1.0f) * random.uniform(0.5f, 1.0f);
          if (values == Values::tiny) value *= 0x1p-100f;
        }
    });
  };
}

}  // namespace runmax::judge
