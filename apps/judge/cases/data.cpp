#include "judge/cases/data.hpp"

#include <cstddef>

namespace runmax::judge {
namespace {

// Of one query head; the arrays are packed.
reference::Head<float> head_of(const Problem& p, const Inputs& inputs, std::int64_t b, std::int64_t h) {
  const std::int64_t kv_head = b * p.kv_heads + h / (p.query_heads / p.kv_heads);
  reference::Head<float> head;
  head.q = {inputs.q.data() + (b * p.query_heads + h) * p.query_len * p.head_dim, p.head_dim, 1};
  head.k = {inputs.k.data() + kv_head * p.kv_len * p.head_dim, p.head_dim, 1};
  head.v = {inputs.v.data() + kv_head * p.kv_len * p.value_dim, p.value_dim, 1};
  head.query_len = p.query_len;
  head.kv_len = p.kv_len;
  head.head_dim = p.head_dim;
  head.value_dim = p.value_dim;
  head.scale = effective_scale(p);
  return head;
}

void add_rows(const Problem& p, const Inputs& inputs, std::int64_t b, std::int64_t h,
              const std::vector<std::int64_t>& rows, int threads, std::vector<reference::Row<double>>& want) {
  const auto visible = [&](std::int64_t i) {
    const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
    return reference::Keys{keys.begin, keys.end};
  };
  reference::for_each_reference_row<double>(
      head_of(p, inputs, b, h), rows, visible, threads,
      [&](std::int64_t, const reference::Row<double>& row) { want.push_back(row); });
}

}  // namespace

Result<Plan> naive_plan(const Problem& problem, int threads) {
  return plan(problem, device_facts({}).value(), {.kernel = "cpu_naive", .threads = threads});
}

Status run_naive(const Plan& plan, const float* q, const float* k, const float* v, float* o,
                 void* workspace) {
  const Problem& p = plan.problem;
  const auto view = [](const void* data, std::int64_t batch, std::int64_t heads, std::int64_t length,
                       std::int64_t dim) {
    return packed_view(data, DType::f32, {batch, heads, length, dim}, Layout::bhsd);
  };
  Tensors tensors;
  tensors.q = view(q, p.batch, p.query_heads, p.query_len, p.head_dim);
  tensors.k = view(k, p.batch, p.kv_heads, p.kv_len, p.head_dim);
  tensors.v = view(v, p.batch, p.kv_heads, p.kv_len, p.value_dim);
  tensors.o = view(o, p.batch, p.query_heads, p.query_len, p.value_dim);
  return run(plan, tensors, {workspace, plan.workspace_bytes}, nullptr);
}

Result<Truth> truth_of(const Problem& p, const Inputs& inputs, int threads) {
  Truth truth;
  const std::vector<std::int64_t> rows = reference::all_rows(p.query_len);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.query_heads; ++h) add_rows(p, inputs, b, h, rows, threads, truth.want);
  Result<Plan> planned = naive_plan(p, threads);
  if (!planned.ok()) return planned.status();
  std::vector<std::max_align_t> workspace(planned.value().workspace_bytes / sizeof(std::max_align_t) + 1);
  truth.naive.resize(static_cast<std::size_t>(p.batch * p.query_heads * p.query_len * p.value_dim));
  if (Status status = run_naive(planned.value(), inputs.q.data(), inputs.k.data(), inputs.v.data(),
                                truth.naive.data(), workspace.data());
      !status.ok())
    return status;
  return truth;
}

std::vector<reference::Row<double>> reference_rows(const Problem& p, const Inputs& inputs,
                                                   const std::vector<std::int64_t>& rows, int threads) {
  std::vector<reference::Row<double>> want;
  add_rows(p, inputs, 0, 0, rows, threads, want);
  return want;
}

}  // namespace runmax::judge
