#include "judge/cases/buffers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace runmax::judge {
namespace {

constexpr const char* input_names[] = {"q", "k", "v"};
constexpr const char* output_names[] = {"o", "lse", "workspace"};

// A device has no untouchable pages: more than a block of 64 rows lies between two arrays.
constexpr std::int64_t device_margin = 32 << 10;

std::int64_t elements(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return a * b * c * d;
}

// "4 bytes before the beginning of", "8 bytes behind the end of"; bytes is the array's size.
std::string place_words(std::int64_t byte, std::int64_t bytes, const char* array) {
  if (byte < 0) return fmt::format("{} bytes before the beginning of {}", -byte, array);
  return fmt::format("{} bytes behind the end of {}", byte - bytes, array);
}

}  // namespace

Result<Buffers> Buffers::make(const std::vector<SetOfArrays>& sets, const Manifest& manifest) {
  Buffers buffers;
  buffers.lse_ = manifest.lse;
  buffers.manifest_ = &manifest;
  const bool device = manifest.tier == Tier::device;
  if (device) buffers.per_set_ = 6;
  std::vector<Wanted> in, out;
  for (const auto& [p, placement] : sets) {
    const auto floats = [&, placement = placement](std::vector<Wanted>& list, std::int64_t count) {
      list.push_back({4 * count, placement, manifest.align, device ? device_margin : 0});
    };
    floats(in, elements(p.batch, p.query_heads, p.query_len, p.head_dim));
    floats(in, elements(p.batch, p.kv_heads, p.kv_len, p.head_dim));
    floats(in, elements(p.batch, p.kv_heads, p.kv_len, p.value_dim));
    floats(out, elements(p.batch, p.query_heads, p.query_len, p.value_dim));
    floats(out, manifest.lse ? elements(p.batch, p.query_heads, p.query_len, 1) : 0);
    Result<std::int64_t> workspace = manifest.workspace_bytes(p);
    if (!workspace.ok())
      return Status(StatusCode::invalid_argument, "workspace: " + workspace.status().message());
    constexpr std::int64_t most = std::int64_t{4} << 30;
    if (workspace.value() > most)
      return Status(StatusCode::out_of_memory,
                    fmt::format("workspace: must be at most {} bytes, is {} for {}", most, workspace.value(),
                                to_text(p)));
    buffers.workspace_.push_back(workspace.value());
    floats(out, (workspace.value() + 3) / 4);
    if (device)
      for (std::size_t i = in.size() - 3; i < in.size(); ++i) out.push_back(in[i]);
    buffers.problems_.push_back(p);
  }
  Result<Arena> inputs = Arena::make(Arena::Use::inputs, in);
  if (!inputs.ok()) return inputs.status();
  Result<Arena> outputs = Arena::make(Arena::Use::outputs, out);
  if (!outputs.ok()) return outputs.status();
  buffers.inputs_ = std::move(inputs.value());
  buffers.outputs_ = std::move(outputs.value());
  return buffers;
}

void Buffers::put(std::size_t set, const Inputs& data) const {
  const std::vector<float>* arrays[] = {&data.q, &data.k, &data.v};
  for (std::size_t i = 0; i < 3; ++i)
    std::memcpy(inputs_.data(3 * set + i), arrays[i]->data(), arrays[i]->size() * sizeof(float));
}

void Buffers::poison(std::size_t set, Poison poison) const {
  for (std::size_t i = per_set_ * set; i < per_set_ * (set + 1); ++i) {
    outputs_.fill_bands(i);
    auto* words = reinterpret_cast<std::uint32_t*>(outputs_.data(i));
    std::fill(words, words + outputs_.bytes(i) / 4, static_cast<std::uint32_t>(poison));
  }
}

Call Buffers::call(std::size_t set) const {
  Call call;
  const Problem& p = problems_[set];
  const auto inputs = static_cast<std::int32_t>(inputs_.count());
  for (std::size_t i = 0; i < 3; ++i) {
    call.arrays[i] = {static_cast<std::int32_t>(3 * set + i), 0, inputs_.base(3 * set + i)};
    const bool absent = outputs_.bytes(per_set_ * set + i) == 0;
    call.arrays[3 + i] = {absent ? -1 : inputs + static_cast<std::int32_t>(per_set_ * set + i), 0,
                          outputs_.base(per_set_ * set + i)};
  }
  call.batch = p.batch;
  call.heads = p.query_heads;
  call.kv_heads = p.kv_heads;
  call.sq = p.query_len;
  call.sk = p.kv_len;
  call.d = p.head_dim;
  call.scale = static_cast<float>(effective_scale(p));
  call.causal = p.causal == Causal::none ? 0 : 1;
  call.workspace_bytes = workspace_[set];
  if (per_set_ == 6) {
    for (std::size_t i = 0; i < 3; ++i)
      call.arrays[6 + i] = {inputs + static_cast<std::int32_t>(per_set_ * set + 3 + i), 0,
                            outputs_.base(per_set_ * set + 3 + i)};
    const auto count = [&](const std::string& expression) {
      const Result<std::int64_t> value = evaluate(expression, variables_of(p));
      return value.ok() ? static_cast<std::int32_t>(std::clamp<std::int64_t>(value.value(), 0, 0x7fffffff))
                        : 0;
    };
    call.blocks = count(manifest_->blocks);
    call.threads = count(manifest_->threads);
    call.shared_bytes = count(manifest_->shared_bytes);
  }
  return call;
}

std::vector<float> Buffers::out(std::size_t set) const {
  const float* begin = outputs_.floats(per_set_ * set);
  return {begin, begin + outputs_.bytes(per_set_ * set) / 4};
}

std::vector<float> Buffers::lse(std::size_t set) const {
  const float* begin = outputs_.floats(per_set_ * set + 1);
  return {begin, begin + outputs_.bytes(per_set_ * set + 1) / 4};
}

std::string Buffers::written_outside(std::size_t set) const {
  std::size_t at = per_set_ * set;
  for (const char* name : output_names) {
    if (const auto byte = outputs_.touched_band(at))
      return "it wrote " + place_words(*byte, outputs_.bytes(at), name);
    ++at;
  }
  return "";
}

Buffers::Finding Buffers::written_inputs(std::size_t set) const {
  if (per_set_ != 6) return {};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t given = 3 * set + i, seen = per_set_ * set + 3 + i;
    const auto bytes = static_cast<std::size_t>(inputs_.bytes(given));
    if (std::memcmp(inputs_.data(given), outputs_.data(seen), bytes) != 0)
      return {"input-written", fmt::format("it wrote to {}: inputs must not change,", input_names[i])};
    if (const auto byte = outputs_.touched_band(seen))
      return {"out-of-bounds", "it wrote " + place_words(*byte, outputs_.bytes(seen), input_names[i])};
  }
  return {};
}

Buffers::Finding Buffers::fault(const Outcome& outcome) const {
  if (!outcome.fault_region) return {};
  const auto region = static_cast<std::size_t>(*outcome.fault_region);
  const bool input = region < inputs_.count();
  const Arena& arena = input ? inputs_ : outputs_;
  const std::size_t at = input ? region : region - inputs_.count();
  if (at >= arena.count()) return {};
  const char* name = input ? input_names[at % 3] : output_names[at % per_set_ % 3];
  const std::int64_t byte = outcome.fault_byte - arena.base(at);
  const bool inside = outcome.fault_byte >= 0 && outcome.fault_byte < arena.region(at).bytes;
  if (input && inside)
    return {"input-written", fmt::format("it wrote to {}, at byte {}: inputs must not change", name, byte)};
  return {"out-of-bounds", "it touched memory " + place_words(byte, arena.bytes(at), name)};
}

}  // namespace runmax::judge
