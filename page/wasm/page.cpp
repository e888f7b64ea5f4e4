// The functions that the page calls: a small C interface around row.hpp, on memory that JavaScript reads.
#include "../../lesson/costs.hpp"
#include "row.hpp"

#if defined(__wasm__)
#define RUNMAX_PAGE_EXPORT(name) extern "C" __attribute__((export_name(#name)))
#else
#define RUNMAX_PAGE_EXPORT(name) extern "C"
#endif

namespace {

using namespace runmax::page;

constexpr int most_nodes = 2 * max_keys - 1;

Row row;
TileStep steps[rule_count][max_keys];
double truth[max_keys][value_dim];
Node nodes[most_nodes];
double costs[9];

bool is_node(int index) { return index >= 0 && index < most_nodes; }

}  // namespace

// Where the arrays lie.
RUNMAX_PAGE_EXPORT(page_scores) float* page_scores() { return row.scores; }
RUNMAX_PAGE_EXPORT(page_values) float* page_values() { return row.values[0]; }
// rule_count x max_keys records of step_floats floats.
RUNMAX_PAGE_EXPORT(page_steps) TileStep* page_steps() { return steps[0]; }
// max_keys x value_dim doubles: plain softmax of all keys up to the end of each tile.
RUNMAX_PAGE_EXPORT(page_truth) double* page_truth() { return truth[0]; }
RUNMAX_PAGE_EXPORT(page_nodes) Node* page_nodes() { return nodes; }
RUNMAX_PAGE_EXPORT(page_cost_figures) double* page_cost_figures() { return costs; }

// Sweeps the row by every rule; the number of tiles, or 0 if the arguments are out of range.
RUNMAX_PAGE_EXPORT(page_sweep) int page_sweep(int keys, int tile) {
  if (keys < 1 || keys > max_keys || tile < 1 || tile > max_keys) return 0;
  int count = 0;
  for (int rule = 0; rule < rule_count; ++rule)
    count = sweep(row, keys, tile, static_cast<Rule>(rule), steps[rule]);
  for (int i = 0; i < count; ++i) plain_softmax(row, (i + 1) * tile < keys ? (i + 1) * tile : keys, truth[i]);
  return count;
}

// exp(score - max), as the library weighs a score.
RUNMAX_PAGE_EXPORT(page_weight) float page_weight(float score, float max) {
  return runmax::softmax_weight(score, max, FixedExp());
}

// Node `index` becomes keys [begin, end); 0 if the arguments are out of range.
RUNMAX_PAGE_EXPORT(page_leaf) int page_leaf(int index, int begin, int end, int tile) {
  if (!is_node(index) || begin < 0 || begin > end || end > max_keys || tile < 1) return 0;
  nodes[index] = leaf(row, begin, end, tile);
  return 1;
}

// Node `into` becomes the merge of two others.
RUNMAX_PAGE_EXPORT(page_merge) int page_merge(int left, int right, int into) {
  if (!is_node(left) || !is_node(right) || !is_node(into)) return 0;
  nodes[into] = merge(nodes[left], nodes[right]);
  return 1;
}

// One FP32 head: score bytes, naive bytes, floor bytes, skipped bytes, bytes that online asks for, ratio,
// flops, naive's intensity, online's.
RUNMAX_PAGE_EXPORT(page_costs) void page_costs(double n, double d) {
  const runmax::lesson::Costs c =
      runmax::lesson::attention_costs(static_cast<std::int64_t>(n), static_cast<std::int64_t>(d));
  costs[0] = static_cast<double>(c.score_bytes);
  costs[1] = static_cast<double>(c.naive_bytes);
  costs[2] = static_cast<double>(c.floor_bytes);
  costs[3] = static_cast<double>(c.skipped_bytes);
  costs[4] = static_cast<double>(c.online_requested_bytes);
  costs[5] = c.ratio;
  costs[6] = c.flops;
  costs[7] = c.naive_intensity;
  costs[8] = c.online_intensity;
}
