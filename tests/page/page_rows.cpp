// The native twin of page/runmax.wasm: the same sources, built for this machine, for the browser test to
// compare.
//
//   page_rows bits COUNT           rows with the hash of everything that the page computes from each, as one
//   binary page_rows steps TILE SCORE...  the steps of a row of 16 scores, as JSON page_rows costs N D the
//   costs of one head, as JSON
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "inputs/random.hpp"
// The functions and the memory that they share are one file.
#include "page/wasm/page.cpp"  // NOLINT(bugprone-suspicious-include)

namespace {

using runmax::inputs::Random;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// FNV-1a over 32-bit words. Sign and payload of a NaN are nobody's promise, so every NaN is the same here.
class Hash {
 public:
  void add(const float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t bits = 0x7fc00000u;
      if (!std::isnan(values[i])) std::memcpy(&bits, &values[i], sizeof bits);
      word(bits);
    }
  }
  void add(const double* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t bits = 0x7ff8000000000000u;
      if (!std::isnan(values[i])) std::memcpy(&bits, &values[i], sizeof bits);
      word(static_cast<std::uint32_t>(bits));
      word(static_cast<std::uint32_t>(bits >> 32));
    }
  }
  std::uint32_t value() const { return hash_; }

 private:
  void word(std::uint32_t bits) { hash_ = (hash_ ^ bits) * 16777619u; }
  std::uint32_t hash_ = 2166136261u;
};

// Ten kinds of rows: plain, wide, huge, equal, rising, some or all -inf, with NaN, with +inf, tiny
// differences.
float score_of(int kind, int j, Random& random) {
  switch (kind) {
    case 1:
      return 40 * random.normal();
    case 2:
      return 1e37f * random.normal();
    case 3:
      return 2.5f;
    case 4:
      return static_cast<float>(j) + random.uniform(0, 1);
    case 5:
      return random.below(2) ? -infinity : random.normal();
    case 6:
      return -infinity;
    case 7:
      return random.below(8) == 0 ? nan_value : random.normal();
    case 8:
      return random.below(8) == 0 ? infinity : random.normal();
    case 9:
      return -90 + 60 * random.uniform(0, 1);
    default:
      return random.normal();
  }
}

// One state for each piece between cuts, then neighbours merged level by level, an odd one carried up: as the
// page's tree does it. Bit j of `cuts` separates keys j and j + 1.
int merge_tree(std::uint32_t cuts, int keys, int tile) {
  int level[max_keys], count = 0, next = 0;
  for (int begin = 0; begin < keys;) {
    int end = begin + 1;
    while (end < keys && !(cuts >> (end - 1) & 1)) ++end;
    page_leaf(next, begin, end, tile);
    level[count++] = next++;
    begin = end;
  }
  while (count > 1) {
    int merged = 0;
    for (int i = 0; i + 1 < count; i += 2) {
      page_merge(level[i], level[i + 1], next);
      level[merged++] = next++;
    }
    if (count % 2) level[merged++] = level[count - 1];
    count = merged;
  }
  return next;
}

template <class T>
void put(const T& value) {
  (void)std::fwrite(&value, sizeof value, 1, stdout);
}

void write_bits(int count) {
  put(static_cast<std::uint32_t>(count));
  for (int i = 0; i < count; ++i) {
    Random random(2026, static_cast<std::uint64_t>(i));
    const int kind = i % 10;
    const int keys = 1 + static_cast<int>(random.below(max_keys)),
              tile = 1 + static_cast<int>(random.below(max_keys));
    const auto cuts = static_cast<std::uint32_t>(random.below(1 << (max_keys - 1)));
    for (int j = 0; j < max_keys; ++j) {
      row.scores[j] = score_of(kind, j, random);
      for (float& value : row.values[j]) value = random.normal();
    }
    const int tiles = page_sweep(keys, tile);
    const int tree = merge_tree(cuts, keys, tile);
    Hash hash;
    for (const auto& by_rule : steps)
      hash.add(&by_rule[0].old_max, static_cast<std::size_t>(tiles) * step_floats);
    hash.add(truth[0], static_cast<std::size_t>(tiles) * value_dim);
    hash.add(&nodes[0].max, static_cast<std::size_t>(tree) * node_floats);
    put(static_cast<std::uint32_t>(keys));
    put(static_cast<std::uint32_t>(tile));
    put(cuts);
    put(hash.value());
    put(row);
  }
}

// A JSON number, or the name of what JSON has not.
std::string number(double x) {
  if (std::isnan(x)) return "\"NaN\"";
  if (std::isinf(x)) return x > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", x);
  return text;
}

template <class T>
std::string list(const T* values, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i ? ", " : "") + number(static_cast<double>(values[i]));
  return text + "]";
}

void write_steps(int tile) {
  // The page's own values: ones, position, even or odd, a wave in quarters.
  constexpr float wave[4] = {0, 1, 0, -1};
  for (int j = 0; j < max_keys; ++j) {
    row.values[j][0] = 1;
    row.values[j][1] = static_cast<float>(j + 1);
    row.values[j][2] = j % 2 ? 1.0f : -1.0f;
    row.values[j][3] = wave[j % 4];
  }
  const int tiles = page_sweep(max_keys, tile);
  std::printf("[");
  for (int i = 0; i < tiles; ++i) {
    const TileStep& s = steps[0][i];
    std::printf(
        "%s{\"old_max\": %s, \"tile_max\": %s, \"max\": %s, \"rescale\": %s, \"tile_sum\": %s, \"sum\": %s, "
        "\"lse\": %s, "
        "\"out\": %s, \"result\": %s, \"not_rescaled\": %s, \"per_tile\": %s, \"truth\": %s}",
        i ? ",\n" : "", number(s.old_max).c_str(), number(s.tile_max).c_str(), number(s.max).c_str(),
        number(s.rescale).c_str(), number(s.tile_sum).c_str(), number(s.sum).c_str(), number(s.lse).c_str(),
        list(s.out, value_dim).c_str(), list(s.result, value_dim).c_str(),
        list(steps[1][i].result, value_dim).c_str(), list(steps[2][i].result, value_dim).c_str(),
        list(truth[i], value_dim).c_str());
  }
  std::printf("]\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "bits" && argc == 3) {
    write_bits(std::atoi(argv[2]));
  } else if (what == "steps" && argc == 3 + max_keys) {
    for (int j = 0; j < max_keys; ++j) row.scores[j] = std::strtof(argv[3 + j], nullptr);
    write_steps(std::atoi(argv[2]));
  } else if (what == "costs" && argc == 4) {
    page_costs(std::atof(argv[2]), std::atof(argv[3]));
    std::printf("%s\n", list(costs, 9).c_str());
  } else {
    std::fprintf(stderr, "usage: page_rows bits COUNT | steps TILE SCORE... | costs N D\n");
    return 2;
  }
  return 0;
}
