// The exercise's online kernel on the CPU, every step of it by name, so that a candidate can get one wrong.
//
// A fault is a struct derived from Right that hides one of its functions. C++17, standard library only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// The arguments of `attention`: q and o (batch, heads, sq, d), k and v (batch, kv_heads, sk, d).
struct Call {
  const float *q, *k, *v;
  float *o, *lse;
  std::int64_t batch, heads, kv_heads, sq, sk, d;
  float scale;
  bool causal;
};

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

struct Right {
  static constexpr std::int64_t key_tile = 32;

  // Without a manifest: one head of width 64, as many keys as queries.
  bool claims(const Call& call) const {
    return call.batch == 1 && call.heads == 1 && call.kv_heads == 1 && call.sq == call.sk && call.d == 64 &&
           !call.causal;
  }

  // Which memory.
  std::int64_t kv_head(const Call& call, std::int64_t head) const {
    return head / (call.heads / call.kv_heads);
  }
  float key(const Call& call, const float* k, std::int64_t j, std::int64_t c) const {
    return k[j * call.d + c];
  }
  float value(const Call& call, const float* v, std::int64_t j, std::int64_t c) const {
    return v[j * call.d + c];
  }
  std::int64_t place_of_row(const Call&, std::int64_t i) const { return i; }
  std::int64_t place_of_dimension(const Call&, std::int64_t c) const { return c; }

  // Which keys: row i sees keys 0, 1, ..., visible - 1, and of those the kernel visits [first, last).
  std::int64_t visible(const Call& call, std::int64_t i) const {
    return call.causal ? std::clamp(i + call.sk - call.sq + 1, std::int64_t{0}, call.sk) : call.sk;
  }
  std::int64_t first(std::int64_t /*visible*/) const { return 0; }
  std::int64_t last(std::int64_t visible) const { return visible; }

  // What a product multiplies, and what the scores are multiplied by.
  float operand(float value) const { return value; }
  float scale(const Call& call) const { return call.scale; }

  // The identity.
  float starting_maximum() const { return minus_infinity; }
  float raised(float old_max, float tile_max) const { return std::max(old_max, tile_max); }
  float subtracted(float /*old_max*/, float /*tile_max*/, float new_max) const { return new_max; }
  float weight(float score, float max) const { return std::exp(score - max); }
  float factor_of_sum(float rescale) const { return rescale; }
  float factor_of_output(float rescale) const { return rescale; }
  float times(std::int64_t /*key*/, std::int64_t /*visible*/) const { return 1; }
  float mixed(float weight, float /*sum*/) const { return weight; }
  float answer(float out, float sum) const { return sum == 0 ? 0 : out / sum; }
  float log_of_sum(float max, float sum) const { return sum == 0 ? minus_infinity : max + std::log(sum); }
};

template <class Fault>
void attend_row(const Call& call, const Fault& fault, std::int64_t batch, std::int64_t head, std::int64_t i) {
  const std::int64_t row = (batch * call.heads + head) * call.sq + i;
  const std::int64_t kv_head = batch * call.kv_heads + fault.kv_head(call, head);
  const float* q = call.q + row * call.d;
  const float* k = call.k + kv_head * call.sk * call.d;
  const float* v = call.v + kv_head * call.sk * call.d;

  float max = fault.starting_maximum(), sum = 0;
  std::vector<float> out(static_cast<std::size_t>(call.d), 0.0f);
  float weights[Fault::key_tile];

  const std::int64_t visible = fault.visible(call, i);
  const std::int64_t last = fault.last(visible);
  for (std::int64_t tile = fault.first(visible); tile < last; tile += Fault::key_tile) {
    const std::int64_t count = std::min(Fault::key_tile, last - tile);
    float tile_max = minus_infinity;
    for (std::int64_t j = 0; j < count; ++j) {
      float dot = 0;
      for (std::int64_t c = 0; c < call.d; ++c)
        dot += fault.operand(q[c]) * fault.operand(fault.key(call, k, tile + j, c));
      weights[j] = dot * fault.scale(call);
      tile_max = std::max(tile_max, weights[j]);
    }

    const float new_max = fault.raised(max, tile_max);
    const float rescale = std::exp(max - new_max);
    const float subtracted = fault.subtracted(max, tile_max, new_max);
    max = new_max;
    sum *= fault.factor_of_sum(rescale);
    for (std::int64_t j = 0; j < count; ++j) {
      weights[j] = fault.weight(weights[j], subtracted) * fault.times(tile + j, visible);
      sum += weights[j];
    }
    for (float& element : out) element *= fault.factor_of_output(rescale);
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t c = 0; c < call.d; ++c)
        out[static_cast<std::size_t>(c)] +=
            fault.operand(fault.mixed(weights[j], sum)) * fault.operand(fault.value(call, v, tile + j, c));
  }

  float* o = call.o + ((batch * call.heads + head) * call.sq + fault.place_of_row(call, i)) * call.d;
  for (std::int64_t c = 0; c < call.d; ++c)
    o[fault.place_of_dimension(call, c)] = fault.answer(out[static_cast<std::size_t>(c)], sum);
  if (call.lse) call.lse[row] = fault.log_of_sum(max, sum);
}

template <class Fault>
int attend(const Call& call, const Fault& fault) {
  if (!fault.claims(call)) return 1;
  for (std::int64_t batch = 0; batch < call.batch; ++batch)
    for (std::int64_t head = 0; head < call.heads; ++head)
      for (std::int64_t i = 0; i < call.sq; ++i) attend_row(call, fault, batch, head, i);
  return 0;
}
