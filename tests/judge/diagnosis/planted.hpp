// The planted mistakes of apps/judge/faults/cpu as functions, by the names of their files.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace runmax::planted {

using Attention = int(const float* q, const float* k, const float* v, float* o, float* lse,
                      std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                      std::int64_t sk, std::int64_t d, float scale, int causal, void* workspace,
                      void* stream);

struct Planted {
  std::string_view name;
  Attention* attention;
};

const std::vector<Planted>& all();

// The honest candidates of apps/judge/faults/honest.
const std::vector<Planted>& honest();

}  // namespace runmax::planted
