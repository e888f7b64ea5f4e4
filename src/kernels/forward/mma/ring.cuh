// The ring of slots through which a block reads the images of its key tiles.
#pragma once

#include <cstdint>

#include "device/ptx/async_copy.cuh"
#include "device/ptx/named_barrier.cuh"
#include "kernels/forward/mma/config.hpp"

namespace runmax::mma_sync {

// The images of a run of key tiles are one stream of slots, which a block uses in turn: acquire() gives the
// next one to every warp that multiplies, and while they use it, in `parts` parts, fetch() asks for a later
// one.
inline constexpr int parts = 8;
inline constexpr int part_bytes = slot_bytes / parts;

// With cp.async every warp asks for its share, and several slots are on their way at a time.
template <ForwardTile config>
struct AsyncRing {
  unsigned char* slots;
  const unsigned char* source;  // the next slot to ask for
  int left;                     // slots not yet asked for
  int slot;                     // the one in use

  __device__ AsyncRing(unsigned char* shared, const unsigned char* images, int count)
      : slots(shared), source(images), left(count), slot(config.slots - 1) {
#pragma unroll
    for (int ahead = 0; ahead < config.slots - 1; ++ahead)
#pragma unroll
      for (int part = 0; part < parts; ++part) ask(ahead, part);
  }

  __device__ const unsigned char* acquire() {
    ptx::copy_async_wait<config.slots - 2>();
    ptx::block_barrier_sync<1,
                            config.threads()>();  // everybody's bytes are there, and the slot before is free
    slot = slot + 1 == config.slots ? 0 : slot + 1;
    return slots + slot * slot_bytes;
  }
  __device__ void fetch(int part) { ask(slot == 0 ? config.slots - 1 : slot - 1, part); }

 private:
  __device__ void ask(int into, int part) {
    if (left > 0)
      for (int piece = static_cast<int>(threadIdx.x); piece < part_bytes / 16; piece += config.threads()) {
        const int at = part * part_bytes + piece * 16;
        ptx::copy_async_16(slots + into * slot_bytes + at, source + at, 16);
      }
    if (part < parts - 1) return;
    ptx::copy_async_commit();  // an empty group where nothing is left keeps the count
    --left;
    source += slot_bytes;
  }
};

// Without it one more warp copies through its registers, a slot ahead. (Copies between the multiplications of
// the other warps are moved to their beginning by the compiler, where they wait for memory and spill.)
template <ForwardTile config>
struct FedRing {
  static_assert(config.slots == 2 && config.feeders == 1);
  const unsigned char* slots;
  int slot = 1;

  __device__ FedRing(unsigned char* shared, const unsigned char*, int) : slots(shared) {}

  __device__ const unsigned char* acquire() {
    ptx::block_barrier_sync<1, config.threads()>();
    slot ^= 1;
    return slots + slot * slot_bytes;
  }
  // Nothing to ask for; but reads of later parts stay behind, where their registers are free.
  __device__ void fetch(int) {
#if __CUDA_ARCH__ >= 800
    __threadfence_block();
#else
    __syncwarp();
#endif
  }

  // What the warp that copies does: a slot while the others use the one before.
  __device__ static void feed(unsigned char* shared, const unsigned char* images, int count, int lane) {
    constexpr int pieces = slot_bytes / 16 / 32, together = 16;
    for (int slot = 0; slot < count; ++slot) {
      const uint4* from = reinterpret_cast<const uint4*>(images + std::int64_t{slot} * slot_bytes) + lane;
      uint4* to = reinterpret_cast<uint4*>(shared + slot % 2 * slot_bytes) + lane;
      for (int first = 0; first < pieces; first += together) {
        uint4 piece[together];
#pragma unroll
        for (int p = 0; p < together; ++p) piece[p] = __ldg(from + (first + p) * 32);
#pragma unroll
        for (int p = 0; p < together; ++p) to[(first + p) * 32] = piece[p];
      }
      ptx::block_barrier_sync<1, config.threads()>();
    }
  }
};

template <Form form, ForwardTile config>
struct RingOf;
template <ForwardTile config>
struct RingOf<Form::m16n8k8, config> {
  using Type = FedRing<config>;
};
template <ForwardTile config>
struct RingOf<Form::m16n8k16, config> {
  using Type = AsyncRing<config>;
};

}  // namespace runmax::mma_sync
