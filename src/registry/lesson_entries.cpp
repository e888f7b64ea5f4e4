#include "registry/lesson_entries.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>

#include "kernels/lesson/online/host.hpp"

namespace runmax {
namespace {

using lesson::online_host_rows;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void fill_host_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  plan.block_q = lesson::rows_per_block;
  plan.block_kv = lesson::key_tile;
  plan.work_items = plan.problem.batch * plan.problem.query_heads *
                    ceil_div(plan.problem.query_len, lesson::rows_per_block);
  plan.threads = options.threads > 0 ? options.threads : facts.threads;
}

Status run_host(const Plan& plan, const Tensors& t, Workspace, Stream) {
  const Problem& p = plan.problem;
  const std::int64_t tiles = ceil_div(p.query_len, lesson::rows_per_block);
  const std::int64_t group = p.kv_heads == 0 ? 1 : p.query_heads / p.kv_heads;
  const auto at = [](const TensorView& view, std::int64_t b, std::int64_t h) {
    return static_cast<float*>(view.data) + b * view.strides[0] + h * view.strides[1];
  };
  tbb::task_arena arena(std::max(plan.threads, 1));
  arena.execute([&] {
    tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, plan.work_items, 1), [&](const auto& range) {
      for (std::int64_t item = range.begin(); item != range.end(); ++item) {
        const std::int64_t tile = item % tiles;
        const std::int64_t h = item / tiles % p.query_heads;
        const std::int64_t b = item / tiles / p.query_heads;
        lesson::HostHead head;
        head.q = {at(t.q, b, h), t.q.strides[2], t.q.strides[3]};
        head.k = {at(t.k, b, h / group), t.k.strides[2], t.k.strides[3]};
        head.v = {at(t.v, b, h / group), t.v.strides[2], t.v.strides[3]};
        head.o = {at(t.o, b, h), t.o.strides[2], t.o.strides[3]};
        head.lse = t.lse.data ? at(t.lse, b, h) : nullptr;
        head.lse_stride = t.lse.strides[2];
        head.query_len = p.query_len;
        head.kv_len = p.kv_len;
        head.head_dim = p.head_dim;
        head.value_dim = p.value_dim;
        head.scale = static_cast<float>(effective_scale(p));
        const std::int64_t first = tile * lesson::rows_per_block;
        online_host_rows(head, first, std::min(first + lesson::rows_per_block, p.query_len),
                         [&](std::int64_t i) {
                           const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
                           return lesson::Keys{keys.begin, keys.end};
                         });
      }
    });
  });
  return {};
}

}  // namespace

KernelEntry cpu_lesson_online_entry() {
  KernelEntry entry;
  entry.name = "cpu_lesson_online";
  entry.device = DeviceKind::cpu;
  entry.choice = Choice::by_name;
  entry.summary = "the lesson's online order in plain C++: 32 keys a tile, one row at a time";
  entry.computed_as = "f32 multiply and add, expf";
  entry.serves = {
      .f32 = true, .ieee = true, .causal_bottom_right = true, .causal_top_left = true, .window = true};
  entry.fill_plan = fill_host_plan;
  entry.run = run_host;
  return entry;
}

}  // namespace runmax
