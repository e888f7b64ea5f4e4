#include "registry/lesson_entries.hpp"

#include <algorithm>

#include "kernels/lesson/launch.hpp"
#include "kernels/lesson/online/host.hpp"
#include "runtime/workers.hpp"

namespace runmax {
namespace {

using lesson::online_host_rows;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::optional<std::string> host_refuses(const Problem&, const DeviceFacts&, const PlanOptions& options) {
  if (options.num_splits > 1)
    return "num_splits: rows are computed whole, got " + std::to_string(options.num_splits);
  return std::nullopt;
}

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
  Workers(plan.threads).for_each(plan.work_items, [&](std::int64_t, std::int64_t item) {
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
    online_host_rows(head, first, std::min(first + lesson::rows_per_block, p.query_len), [&](std::int64_t i) {
      const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
      return lesson::Keys{keys.begin, keys.end};
    });
  });
  return {};
}

// The rule that a path of the lesson breaks for this problem, with the value, or nothing.
std::optional<std::string> refuses_square(const Problem& p,
                                          const char* (*path_refuses)(std::int64_t n, std::int64_t d)) {
  if (p.query_len != p.kv_len)
    return "kv_len must equal query_len (query_len=" + std::to_string(p.query_len) +
           ", kv_len=" + std::to_string(p.kv_len) + ")";
  if (p.value_dim != p.head_dim)
    return "value_dim must equal head_dim (head_dim=" + std::to_string(p.head_dim) +
           ", value_dim=" + std::to_string(p.value_dim) + ")";
  if (const char* rule = path_refuses(p.query_len, p.head_dim))
    return std::string(rule) + " (n=" + std::to_string(p.query_len) +
           ", head_dim=" + std::to_string(p.head_dim) + ")";
  return std::nullopt;
}

std::optional<std::string> online_refuses(const Problem& p, const DeviceFacts&, const PlanOptions& options) {
  if (options.num_splits > 1) return "num_splits must be 0 or 1, got " + std::to_string(options.num_splits);
  return refuses_square(p, lesson::cuda_online_refuses);
}

std::optional<std::string> naive_refuses(const Problem& p, const DeviceFacts&, const PlanOptions& options) {
  if (options.num_splits > 1) return "num_splits must be 0 or 1, got " + std::to_string(options.num_splits);
  return refuses_square(p, lesson::cuda_naive_refuses);
}

void online_plan(Plan& plan, const DeviceFacts&, const PlanOptions&) {
  using Config = lesson::OnlineConfig;
  const std::int64_t heads = plan.problem.batch * plan.problem.query_heads;
  plan.block_q = Config::rows_per_block;
  plan.block_kv = Config::key_tile;
  plan.num_splits = 1;
  plan.work_items = heads * plan.problem.query_len / Config::rows_per_block;
  plan.threads = Config::threads;
  plan.launches = static_cast<std::int32_t>(heads);
}

void naive_plan(Plan& plan, const DeviceFacts&, const PlanOptions&) {
  using Config = lesson::NaiveConfig;
  const std::int64_t heads = plan.problem.batch * plan.problem.query_heads;
  const std::int64_t tiles = plan.problem.query_len / Config::tile;
  plan.block_q = Config::tile;
  plan.block_kv = Config::tile;
  plan.num_splits = 1;
  plan.work_items = heads * tiles * tiles;
  plan.threads = Config::threads;
  plan.launches = static_cast<std::int32_t>(heads * Config::launches);
  plan.workspace_bytes = 2 * lesson::naive_matrix_bytes(plan.problem.query_len);  // heads take turns
}

#if defined(RUNMAX_WITH_CUDA)

Status check_packed_rows(const Plan& plan, const char* name, const TensorView& view) {
  if (view.elements() == 0) return {};
  const bool rows = view.length() == 1 || view.strides[2] == view.dim();
  const bool channels = view.dim() == 1 || view.strides[3] == 1;
  if (rows && channels) return {};
  return {StatusCode::unsupported,
          std::string(name) + ": " + plan.kernel + " takes packed rows, with strides (any, any, " +
              std::to_string(view.dim()) + ", 1), got length stride " + std::to_string(view.strides[2]) +
              " and dim stride " + std::to_string(view.strides[3])};
}

// Calls launch(q, k, v, o, lse) for every head, lse null if not wanted. Stops at the first CUDA error.
template <class Launch>
Status run_heads(const Plan& plan, const Tensors& t, Launch launch) {
  const Problem& p = plan.problem;
  for (Status status : {check_packed_rows(plan, "q", t.q), check_packed_rows(plan, "k", t.k),
                        check_packed_rows(plan, "v", t.v), check_packed_rows(plan, "o", t.o)})
    if (!status.ok()) return status;
  if (t.lse.data)
    if (Status status = check_packed_rows(plan, "lse", t.lse); !status.ok()) return status;
  const auto at = [](const TensorView& view, std::int64_t b, std::int64_t h) {
    return static_cast<float*>(view.data) + b * view.strides[0] + h * view.strides[1];
  };
  const std::int64_t group = p.query_heads / p.kv_heads;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.query_heads; ++h) {
      const int error = launch(at(t.q, b, h), at(t.k, b, h / group), at(t.v, b, h / group), at(t.o, b, h),
                               t.lse.data ? at(t.lse, b, h) : nullptr);
      if (error != 0)
        return {StatusCode::device_error, plan.kernel + ": launching head " + std::to_string(h) +
                                              " of batch " + std::to_string(b) + ": " +
                                              lesson::error_text(error)};
    }
  return {};
}

Status run_online(const Plan& plan, const Tensors& tensors, Workspace, Stream stream) {
  const std::int64_t n = plan.problem.query_len;
  const float scale = static_cast<float>(effective_scale(plan.problem));
  return run_heads(plan, tensors, [&](const float* q, const float* k, const float* v, float* o, float* lse) {
    return lesson::launch_online(q, k, v, o, n, stream, scale, lse);
  });
}

Status run_naive(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream stream) {
  const std::int64_t n = plan.problem.query_len;
  const float scale = static_cast<float>(effective_scale(plan.problem));
  float* scores = static_cast<float*>(workspace.data);
  float* weights = scores + n * n;
  return run_heads(plan, tensors, [&](const float* q, const float* k, const float* v, float* o, float* lse) {
    return lesson::launch_naive(q, k, v, o, scores, weights, n, stream, scale, lse);
  });
}

#endif

KernelEntry cuda_lesson_entry() {
  KernelEntry entry;
  entry.device = DeviceKind::cuda;
  entry.choice = Choice::by_name;
  entry.computed_as = "f32 fused multiply-add, expf";
  entry.serves = {.f32 = true, .ieee = true, .batch_invariant = true};
#if !defined(RUNMAX_WITH_CUDA)
  entry.built = false;
#endif
  return entry;
}

}  // namespace

KernelEntry cuda_lesson_online_entry() {
  KernelEntry entry = cuda_lesson_entry();
  entry.name = "cuda_lesson_online";
  entry.summary = "the lesson's online kernel: 64 queries a block, 32 floats of state a lane, no matrix";
  entry.refuses = online_refuses;
  entry.fill_plan = online_plan;
#if defined(RUNMAX_WITH_CUDA)
  entry.run = run_online;
#endif
  return entry;
}

KernelEntry cuda_lesson_naive_entry() {
  KernelEntry entry = cuda_lesson_entry();
  entry.name = "cuda_lesson_naive";
  entry.summary = "the lesson's naive path: three kernels around two stored n x n matrices";
  entry.refuses = naive_refuses;
  entry.fill_plan = naive_plan;
#if defined(RUNMAX_WITH_CUDA)
  entry.run = run_naive;
#endif
  return entry;
}

KernelEntry cpu_lesson_online_entry() {
  KernelEntry entry;
  entry.name = "cpu_lesson_online";
  entry.device = DeviceKind::cpu;
  entry.choice = Choice::by_name;
  entry.summary = "the lesson's online order in plain C++: 32 keys a tile, one row at a time";
  entry.computed_as = "f32 multiply and add, expf";
  entry.serves = {
      .f32 = true, .ieee = true, .causal_bottom_right = true, .causal_top_left = true, .window = true};
  entry.refuses = host_refuses;
  entry.fill_plan = fill_host_plan;
  entry.run = run_host;
  return entry;
}

}  // namespace runmax
