#include "registry/cuda_entries.hpp"

#include "kernels/forward/cluster/launch.hpp"
#include "kernels/forward/hopper/launch.hpp"
#include "kernels/forward/mma/launch.hpp"
#include "kernels/forward/simt/launch.hpp"

namespace runmax {
namespace {

// Without CUDA in the build the entries stay, and say so; what they would run does not exist.
#if defined(RUNMAX_WITH_CUDA)
constexpr bool built = true;
constexpr auto run_cluster = cluster::forward_run, run_hopper = hopper::forward_run,
               run_mma_m16n8k16 = mma_sync::m16n8k16_run, run_mma_m16n8k8 = mma_sync::m16n8k8_run,
               run_simt = simt::forward_run;
#else
constexpr bool built = false;
constexpr decltype(KernelEntry::run) run_cluster = nullptr, run_hopper = nullptr, run_mma_m16n8k16 = nullptr,
                                     run_mma_m16n8k8 = nullptr, run_simt = nullptr;
#endif

constexpr Features by_planes{
    .f32 = true, .causal_bottom_right = true, .causal_top_left = true, .window = true};
constexpr Features by_fma{
    .f32 = true, .ieee = true, .causal_bottom_right = true, .causal_top_left = true, .window = true};
// Every option of the contract.
constexpr Features everything{.f32 = true,
                              .f16 = true,
                              .bf16 = true,
                              .ieee = true,
                              .causal_bottom_right = true,
                              .causal_top_left = true,
                              .window = true,
                              .softcap = true,
                              .alibi = true,
                              .sink = true,
                              .mask = true,
                              .bias = true,
                              .dropout = true,
                              .varlen = true,
                              .paged = true,
                              .seqused = true,
                              .batch_invariant = true};

constexpr std::string_view by_planes_of_64_keys =
    "three fp16 tensor-core products with block exponents, f32 tile accumulators added every 64 keys";

}  // namespace

KernelEntry cuda_cluster_entry() {
  return {
      .name = "cuda_cluster",
      .device = DeviceKind::cuda,
      .summary = "FP32-grade on Hopper's tensor cores for short heads: one launch, keys split over a cluster",
      .computed_as =
          "three fp16 tensor-core products with an exponent for each row, f32 accumulators added every 96 "
          "keys or fewer",
      .serves = by_planes,
      .built = built,
      .refuses = cluster::forward_refuses,
      .fill_plan = cluster::forward_plan,
      .run = run_cluster};
}

KernelEntry cuda_hopper_entry() {
  return {.name = "cuda_hopper",
          .device = DeviceKind::cuda,
          .summary = "FP32-grade on Hopper's tensor cores: two fp16 planes an operand, 128 keys a tile",
          .computed_as =
              "three fp16 tensor-core products with block exponents, f32 tile accumulators added every 128 "
              "keys",
          .serves = by_planes,
          .built = built,
          .refuses = hopper::forward_refuses,
          .fill_plan = hopper::forward_plan,
          .run = run_hopper};
}

KernelEntry cuda_mma_m16n8k16_entry() {
  return {.name = "cuda_mma_m16n8k16",
          .device = DeviceKind::cuda,
          .summary = "FP32-grade on the tensor cores of sm_80 and newer: mma.sync 16 deep, cp.async",
          .computed_as = by_planes_of_64_keys,
          .serves = by_planes,
          .built = built,
          .refuses = mma_sync::m16n8k16_refuses,
          .fill_plan = mma_sync::m16n8k16_plan,
          .run = run_mma_m16n8k16};
}

KernelEntry cuda_mma_m16n8k8_entry() {
  return {.name = "cuda_mma_m16n8k8",
          .device = DeviceKind::cuda,
          .summary = "FP32-grade on Turing's tensor cores: mma.sync 8 deep; newer GPUs by name",
          .computed_as = by_planes_of_64_keys,
          .serves = by_planes,
          .built = built,
          .refuses = mma_sync::m16n8k8_refuses,
          .fill_plan = mma_sync::m16n8k8_plan,
          .run = run_mma_m16n8k8};
}

KernelEntry cuda_simt_entry() {
  return {.name = "cuda_simt",
          .device = DeviceKind::cuda,
          .summary =
              "FP32 by FMA for any shape and every option, also of fp16 and bf16; split over keys to fill "
              "the card",
          .computed_as = "f32 fused multiply-add, expf",
          .serves = everything,
          .built = built,
          .refuses = simt::forward_refuses,
          .fill_plan = simt::forward_plan,
          .run = run_simt};
}

}  // namespace runmax
