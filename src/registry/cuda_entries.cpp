#include "registry/cuda_entries.hpp"

#include "kernels/forward/cluster/launch.hpp"
#include "kernels/forward/hopper/launch.hpp"
#include "kernels/forward/simt/launch.hpp"

namespace runmax {

KernelEntry cuda_cluster_entry() {
  KernelEntry entry;
  entry.name = "cuda_cluster";
  entry.device = DeviceKind::cuda;
  entry.summary = "FP32 by FMA for short heads: one launch, keys split over a cluster of 8 blocks";
  entry.computed_as = "f32 fused multiply-add, expf";
  entry.serves = {
      .f32 = true, .ieee = true, .causal_bottom_right = true, .causal_top_left = true, .window = true};
  entry.refuses = cluster::forward_refuses;
  entry.fill_plan = cluster::forward_plan;
#if defined(RUNMAX_WITH_CUDA)
  entry.run = cluster::forward_run;
#else
  entry.built = false;
#endif
  return entry;
}

KernelEntry cuda_hopper_entry() {
  KernelEntry entry;
  entry.name = "cuda_hopper";
  entry.device = DeviceKind::cuda;
  entry.summary = "FP32-grade on Hopper's tensor cores: two fp16 planes an operand, 128 keys a tile";
  entry.computed_as =
      "three fp16 tensor-core products with block exponents, f32 tile accumulators added every 128 keys";
  entry.serves = {.f32 = true, .causal_bottom_right = true, .causal_top_left = true, .window = true};
  entry.refuses = hopper::forward_refuses;
  entry.fill_plan = hopper::forward_plan;
#if defined(RUNMAX_WITH_CUDA)
  entry.run = hopper::forward_run;
#else
  entry.built = false;
#endif
  return entry;
}

KernelEntry cuda_simt_entry() {
  KernelEntry entry;
  entry.name = "cuda_simt";
  entry.device = DeviceKind::cuda;
  entry.summary = "FP32 by FMA for any shape, 64 queries x 64 keys a tile, split over keys to fill the card";
  entry.computed_as = "f32 fused multiply-add, expf";
  entry.serves = {
      .f32 = true, .ieee = true, .causal_bottom_right = true, .causal_top_left = true, .window = true};
  entry.refuses = simt::forward_refuses;
  entry.fill_plan = simt::forward_plan;
#if defined(RUNMAX_WITH_CUDA)
  entry.run = simt::forward_run;
#else
  entry.built = false;
#endif
  return entry;
}

}  // namespace runmax
