// Launch of the simt forward kernel with options: their tensors become the policy's fields.
#include "kernels/forward/simt/launch_options.hpp"

#include <algorithm>
#include <limits>

#include "kernels/forward/simt/launch.cuh"
#include "kernels/forward/simt/options.cuh"

namespace runmax::simt {
namespace {

// Puts the lengths of packed sequences where the kernels read them.
Status write_ranges(const Problem& p, SequenceRange* to, cudaStream_t stream) {
  RangesArguments args{};
  SequenceRange next{};
  for (std::int64_t first = 0; first < p.batch; first += ranges_a_launch) {
    args.to = to + first;
    args.count = static_cast<int>(std::min<std::int64_t>(ranges_a_launch, p.batch - first));
    for (int at = 0; at < args.count; ++at) {
      const SequenceLengths& lengths = p.varlen[static_cast<std::size_t>(first + at)];
      next.query_len = lengths.query_len;
      next.kv_len = lengths.kv_len;
      args.ranges[at] = next;
      next.query_start += lengths.query_len;
      next.kv_start += lengths.kv_len;
    }
    if (Status status = launch_kernel("cuda_simt write_ranges_kernel", write_ranges_kernel,
                                      {.blocks = 1, .threads = 128}, stream, args);
        !status.ok())
      return status;
  }
  return {};
}

}  // namespace

Status run_with_options(const Plan& plan, const ForwardConfig& config, const Tensors& t, Workspace workspace,
                        Stream opaque_stream) {
  const auto stream = static_cast<cudaStream_t>(opaque_stream);
  const Problem& p = plan.problem;
  const WorkspaceParts parts = workspace_parts(p, plan.num_splits);
  auto* const memory = static_cast<char*>(workspace.data);
  ForwardArguments<WithOptions> args =
      forward_arguments<WithOptions>(plan, config, t, memory ? memory + parts.range_bytes : nullptr);
  args.q = any_tensor(t.q);
  args.k = any_tensor(t.k);
  args.v = any_tensor(t.v);
  args.o = any_tensor(t.o);

  WithOptions& policy = args.policy;
  policy.top_left = p.causal == Causal::top_left;
  if (!p.varlen.empty()) {
    auto* const ranges = reinterpret_cast<SequenceRange*>(memory);
    if (Status status = write_ranges(p, ranges, stream); !status.ok()) return status;
    policy.ranges = ranges;
  }
  if (p.seqused) {
    policy.kv_lengths = static_cast<const std::int32_t*>(t.kv_lengths.data);
    policy.kv_lengths_stride = t.kv_lengths.strides[0];
  }
  if (p.page_size > 0) {
    policy.page_table = static_cast<const std::int32_t*>(t.page_table.data);
    policy.page_table_stride = t.page_table.strides[0];
    policy.page_table_step = t.page_table.strides[3];
    policy.page_size = p.page_size;
    policy.pages = t.k.batch();
    policy.table_pages = t.page_table.dim();
    // A pool of one page, and a page of one key, still have strides.
    args.k.batch_stride = t.k.strides[0];
    args.v.batch_stride = t.v.strides[0];
  }
  if (p.softcap != 0) {
    // A cap beyond FP32 caps nothing that fits FP32, one below it leaves nothing; 0 * inf must not come up.
    constexpr double least = std::numeric_limits<float>::min(), most = std::numeric_limits<float>::max();
    const double cap = std::clamp(p.softcap, least, most);
    policy.softcap = static_cast<float>(cap);
    policy.cap_factor = static_cast<float>(std::clamp(effective_scale(p) / cap, -most, most));
  }
  if (p.bias) policy.bias = any_tensor(t.bias);
  if (p.mask) policy.mask = any_tensor(t.mask);
  if (p.alibi) policy.slopes = any_tensor(t.alibi_slopes);
  if (p.sink) policy.sink = any_tensor(t.sink);
  policy.dropout_seed = t.dropout.seed;
  policy.dropout_offset = t.dropout.offset;
  policy.dropout_threshold = dropout_threshold(p.dropout);
  policy.kept_factor = p.dropout != 0 ? 1 / (1 - p.dropout) : 1;
  return launch_forward(args, config, stream);
}

}  // namespace runmax::simt
