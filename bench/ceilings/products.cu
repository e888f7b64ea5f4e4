// The loop over key tiles of the hopper kernel with stages left out: its three products of planes by
// themselves, with the ring that feeds them, and with the softmax between them. No prologue, no masks,
// nothing stored.
#include "bench/ceilings/ceilings.hpp"
#include "bench/ceilings/random_fill.cuh"
#include "bench/cycle_count.cuh"
#include "device/planes/softmax.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/warpgroup.cuh"
#include "kernels/forward/hopper/multiply.cuh"
#include "kernels/forward/hopper/shared.cuh"

namespace runmax::bench {
namespace {

using hopper::ForwardTile;

enum class Stages { products, with_ring, with_softmax };

constexpr int image_count = 128;  // key tiles that blocks read, 8 or 16 MiB: they stay in the L2

template <ForwardTile config>
__device__ void produce(hopper::Shared<config>& shared, const unsigned char* images, int tiles) {
  hopper::RingPosition<config.slots> ring;
  for (int tile = 0; tile < tiles; ++tile) {
    const unsigned char* image =
        images + (blockIdx.x * 5 + tile) % image_count * hopper::tile_bytes(config.dim);
    for (int part = 0; part < 2 * config.slots_per_operand(); ++part) {
      ptx::mbarrier_wait(&shared.barriers.empty[ring.slot], ring.parity ^ 1, "a slot to be empty");
      std::uint64_t* full = &shared.barriers.full[ring.slot];
      ptx::mbarrier_arrive_expect_tx(full, hopper::slot_bytes);
      ptx::bulk_copy_to_shared(shared.slots[ring.slot], image + part * std::int64_t{hopper::slot_bytes},
                               hopper::slot_bytes, full);
      ring.advance();
    }
  }
}

// The next operand of the ring, or always the same one.
template <Stages stages, ForwardTile config>
__device__ hopper::OperandPlanes operand(hopper::Shared<config>& shared,
                                         hopper::RingPosition<config.slots>& ring) {
  if constexpr (stages != Stages::products) return hopper::wait_operand(shared, ring, "an operand to land");
  return {shared.slots[0], shared.slots[0] + hopper::plane_bytes(config.dim)};
}

template <Stages stages, ForwardTile config>
__device__ void consume(hopper::Shared<config>& shared, int tiles, int consumer, float* sink) {
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
  const int first_row = consumer * 64 + thread / 32 * 16 + lane / 4;
  const std::uint64_t q_hi = mma::warp_uniform(mma::k_major_descriptor(shared.q_smem + consumer * 64 * 128));
  const std::uint64_t q_lo = mma::advance(q_hi, hopper::query_bytes(config) / 2);
  planes::WeightPlanes<hopper::block_kv> p;
  std::uint32_t seed = blockIdx.x * 1024 + threadIdx.x + 1;
#pragma unroll
  for (int step = 0; step < 8; ++step)
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      p.hi[step][part] = measure::random_halves(seed);
      p.lo[step][part] = measure::random_halves(seed);
    }
  planes::RowState rows[2];
  float scores =
      0.0f;  // one of each tile: nobody reads them otherwise, and ptxas would leave their product out
  float o_reg[config.dim / 2] = {}, shrink[2] = {1.0f, 1.0f};
  hopper::RingPosition<config.slots> ring;
  for (int tile = 0; tile < tiles; ++tile) {
    float s_reg[64], t_reg[config.dim / 2];
    hopper::RingPosition<config.slots> held = ring;
    hopper::multiply_scores<config>(s_reg, q_hi, q_lo, operand<stages>(shared, ring));
    if constexpr (stages != Stages::products) hopper::release_operand(shared, held, lane);
    scores += s_reg[0];
    if constexpr (stages == Stages::with_softmax) {
      const float query_unit[2] = {shared.query_unit[first_row], shared.query_unit[first_row + 8]};
      planes::weigh<false>(s_reg, p, rows, shrink, shared.headers[0], query_unit, lane % 4 * 2);
    }
    hopper::multiply_values<config>(t_reg, p, operand<stages>(shared, ring));
    if constexpr (stages != Stages::products) hopper::release_operand(shared, held, lane);
#pragma unroll
    for (int n = 0; n < config.dim / 8; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) o_reg[4 * n + c] = fmaf(o_reg[4 * n + c], shrink[c / 2], t_reg[4 * n + c]);
  }
  float sum = rows[0].sum + rows[1].sum + scores;
#pragma unroll
  for (int c = 0; c < config.dim / 2; ++c) sum += o_reg[c];
  if (sum == 12345.0f) *sink = sum;
}

template <int dim, Stages stages>
__global__ void __launch_bounds__(hopper::tile_of_dim(dim).threads(), 1)
    loop_kernel(const unsigned char* images, int tiles, float* sink) {
  constexpr ForwardTile config = hopper::tile_of_dim(dim);
  extern __shared__ __align__(1024) unsigned char raw_shared[];
  auto& shared = *reinterpret_cast<hopper::Shared<config>*>(raw_shared);
  std::uint32_t seed = blockIdx.x * config.threads() + threadIdx.x + 1;
  auto* words = reinterpret_cast<std::uint32_t*>(raw_shared);
  for (unsigned i = threadIdx.x; i < (sizeof shared.q_smem + sizeof shared.slots) / 4; i += config.threads())
    words[i] = measure::random_halves(seed);
  for (unsigned row = threadIdx.x; row < config.block_q(); row += config.threads())
    shared.query_unit[row] = 1.0f / dim;  // scores of dim random products, both planes: spread around 1
  if (threadIdx.x == 0) {
    shared.headers[0].key_unit = 1.0f;
    shared.headers[0].tile_exponent = 0.0f;
    for (int slot = 0; slot < config.slots; ++slot) {
      ptx::mbarrier_init(&shared.barriers.full[slot], 1);
      ptx::mbarrier_init(&shared.barriers.empty[slot], 4 * config.consumers);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::fence_proxy_async_shared();
  __syncthreads();
  if (threadIdx.x < 128) {
    ptx::shrink_registers<config.producer_registers>();
    if (stages != Stages::products && threadIdx.x == 0) produce(shared, images, tiles);
  } else {
    ptx::grow_registers<config.consumer_registers>();
    consume<stages>(shared, tiles, static_cast<int>(threadIdx.x / 128) - 1, sink);
  }
}

template <int dim, Stages stages>
cudaError_t measure(int multiprocessors, const unsigned char* images, float* sink, const char* what,
                    std::vector<Ceiling>& rows) {
  constexpr ForwardTile config = hopper::tile_of_dim(dim);
  constexpr int bytes = static_cast<int>(sizeof(hopper::Shared<config>)), tiles = 8000;
  cudaError_t error =
      cudaFuncSetAttribute(loop_kernel<dim, stages>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  cudaEvent_t begin = nullptr, end = nullptr;
  if (error == cudaSuccess) error = cudaEventCreate(&begin);
  if (error == cudaSuccess) error = cudaEventCreate(&end);
  Ceiling row{std::string(what) + ", d = " + std::to_string(dim), "TFLOP/s of FP32-grade work", {}};
  // The first launches bring the card to the clock that it keeps up.
  for (int launch = 0; launch < 10 && error == cudaSuccess; ++launch) {
    cudaEventRecord(begin);
    loop_kernel<dim, stages><<<multiprocessors, config.threads(), bytes>>>(images, tiles, sink);
    error = cudaGetLastError();
    cudaEventRecord(end);
    if (error == cudaSuccess) error = cudaEventSynchronize(end);
    float ms = 0;
    if (error == cudaSuccess) error = cudaEventElapsedTime(&ms, begin, end);
    if (launch >= 3)
      row.samples.push_back(4.0 * config.block_q() * hopper::block_kv * dim * tiles * multiprocessors /
                            (1e9 * static_cast<double>(ms)));
  }
  if (begin) cudaEventDestroy(begin);
  if (end) cudaEventDestroy(end);
  rows.push_back(std::move(row));
  return error;
}

template <int dim>
cudaError_t measure_dim(int multiprocessors, std::vector<Ceiling>& rows) {
  const DeviceArray<unsigned char> images(image_count * hopper::tile_bytes(dim));
  const DeviceArray<float> sink(1);
  if (images.error != cudaSuccess) return images.error;
  if (sink.error != cudaSuccess) return sink.error;
  if (const cudaError_t error = random_fill(images.data, image_count * hopper::tile_bytes(dim));
      error != cudaSuccess)
    return error;
  if (const cudaError_t error = measure<dim, Stages::products>(
          multiprocessors, images.data, sink.data, "hopper: the three products of both sides", rows);
      error != cudaSuccess)
    return error;
  if (const cudaError_t error = measure<dim, Stages::with_ring>(multiprocessors, images.data, sink.data,
                                                                "hopper: products fed by the ring", rows);
      error != cudaSuccess)
    return error;
  return measure<dim, Stages::with_softmax>(multiprocessors, images.data, sink.data,
                                            "hopper: products, ring and softmax", rows);
}

}  // namespace

cudaError_t measure_products(int multiprocessors, std::vector<Ceiling>& rows) {
  if (const cudaError_t error = measure_dim<64>(multiprocessors, rows); error != cudaSuccess) return error;
  return measure_dim<128>(multiprocessors, rows);
}

}  // namespace runmax::bench
