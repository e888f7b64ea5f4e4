// Numbers of the hopper forward kernel: tiles, roles, registers, shared memory, and the image of a key tile.
#pragma once

#include <cstdint>

namespace runmax::hopper {

// One block is a producer warpgroup and `consumers` warpgroups of 64 query rows each.
struct ForwardTile {
  int dim;        // head_dim and value_dim, padded with zero channels
  int consumers;  // warpgroups that compute
  int slots;      // ring of slot_bytes in shared memory
  int header_stages;
  int producer_registers, consumer_registers;

  constexpr int block_q() const { return 64 * consumers; }
  constexpr int threads() const { return 128 * (consumers + 1); }
  // A slot holds as many planes of one operand of one key tile as fit.
  constexpr int planes_per_slot() const { return dim == 64 ? 2 : 1; }
  constexpr int slots_per_operand() const { return 2 / planes_per_slot(); }
  friend constexpr bool operator==(const ForwardTile&, const ForwardTile&) = default;
};

inline constexpr int block_kv = 128;
inline constexpr int slot_bytes = 32 * 1024;

// Three consumers at d = 64 keep the tensor cores busy while others are in their softmax; at d = 128 two
// suffice and need the registers.
inline constexpr ForwardTile d64{.dim = 64,
                                 .consumers = 3,
                                 .slots = 5,
                                 .header_stages = 3,
                                 .producer_registers = 24,
                                 .consumer_registers = 160};
inline constexpr ForwardTile d128{.dim = 128,
                                  .consumers = 2,
                                  .slots = 5,
                                  .header_stages = 2,
                                  .producer_registers = 24,
                                  .consumer_registers = 240};

constexpr ForwardTile tile_of_dim(int dim) { return dim == 64 ? d64 : d128; }

// What travels with a key tile. Exponents are integers held as floats.
struct alignas(16) TileHeader {
  float value_factor[block_kv];  // 2^(r_j - tile_exponent). Only read in a wide tile
  float key_unit;                // K = planes * key_unit, a power of two
  float tile_exponent;           // the largest r_j
  std::int32_t wide;  // some row of V lies more than 2^10 below the largest: rows have exponents of their own
  std::int32_t large_keys;                  // some |k| is 2^40 or more: scores may leave FP32
  std::int32_t listed_keys, listed_values;  // rows of K, and of V, with a NaN or inf: their planes are 0
  std::int16_t
      value_exponent[block_kv];  // r_j: |v_j| < 2^r_j. Only read in a wide tile, and for listed rows of V
  std::uint8_t listed_key[block_kv], listed_value[block_kv];
};
static_assert(sizeof(TileHeader) % 16 == 0, "bulk copies move multiples of 16 bytes");

// Bytes of one plane of one operand (K or V) of a key tile, and of a whole tile: K hi, K lo, V hi, V lo.
constexpr std::int64_t plane_bytes(int dim) { return std::int64_t{2} * block_kv * dim; }
constexpr std::int64_t tile_bytes(int dim) { return 4 * plane_bytes(dim); }

// The first slot of tile n was last used by the operand plane `slots` before it. If that plane belongs to
// tile n - header_stages or a later one, every consumer is done with tile n - header_stages, and its header
// may go.
constexpr bool headers_live_long_enough(const ForwardTile& tile) {
  return (tile.header_stages - 1) * 2 * tile.slots_per_operand() >= tile.slots - 1;
}
static_assert(headers_live_long_enough(d64) && headers_live_long_enough(d128));

struct Barriers {
  std::uint64_t full[8], empty[8];
};

constexpr std::int64_t query_bytes(const ForwardTile& tile) {
  return std::int64_t{4} * tile.block_q() * tile.dim;
}

constexpr std::int64_t shared_bytes(const ForwardTile& tile) {
  return query_bytes(tile) + std::int64_t{tile.slots} * slot_bytes +
         tile.header_stages * std::int64_t{sizeof(TileHeader)} + std::int64_t{sizeof(Barriers)} +
         16 * tile.consumers + 4 * tile.block_q();
}

inline constexpr std::int64_t shared_limit = 227 * 1024;
static_assert(shared_bytes(d64) <= shared_limit && shared_bytes(d128) <= shared_limit);

}  // namespace runmax::hopper
