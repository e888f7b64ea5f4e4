// Numbers of the mma forward kernels: instruction forms, tiles, the ring of slots, and the header of a key
// tile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/tile/fragments.hpp"

namespace runmax::mma_sync {

// Which mma.sync multiplies, and how slots reach shared memory: 8 deep, fed by a warp of its own (sm_75); 16
// deep, by cp.async (sm_80).
enum class Form { m16n8k8, m16n8k16 };

struct ForwardTile {
  int dim;                        // head_dim and value_dim at most, padded with zero channels
  int warps;                      // that multiply, of 16 query rows each
  int feeders;                    // warps that copy
  int slots;                      // ring in shared memory
  int query_steps_in_registers;   // of dim / 16: the planes of the other channels of Q lie in shared memory
  int columns;                    // groups of 8 keys, or of 8 value channels, that are multiplied at a time
  int blocks_per_multiprocessor;  // that registers are kept few enough for

  constexpr int block_q() const { return 16 * warps; }
  constexpr int threads() const { return 32 * (warps + feeders); }
  friend constexpr bool operator==(const ForwardTile&, const ForwardTile&) = default;
};

inline constexpr int block_kv = 64;

// A slot is one operand of a key tile, 64 channels wide, both planes.
inline constexpr int slot_channels = 64;
inline constexpr int slot_bytes = tile::fragment_image_bytes;

// m16n8k8: 64 KB of shared memory is all that an sm_75 has, and registers for 8 warps of 255.
inline constexpr ForwardTile turing_64{.dim = 64,
                                       .warps = 7,
                                       .feeders = 1,
                                       .slots = 2,
                                       .query_steps_in_registers = 4,
                                       .columns = 4,
                                       .blocks_per_multiprocessor = 1};
inline constexpr ForwardTile turing_128{.dim = 128,
                                        .warps = 7,
                                        .feeders = 1,
                                        .slots = 2,
                                        .query_steps_in_registers = 4,
                                        .columns = 4,
                                        .blocks_per_multiprocessor = 1};

// m16n8k16.
inline constexpr ForwardTile ampere_64{.dim = 64,
                                       .warps = 4,
                                       .feeders = 0,
                                       .slots = 3,
                                       .query_steps_in_registers = 4,
                                       .columns = 4,
                                       .blocks_per_multiprocessor = 2};
inline constexpr ForwardTile ampere_128{.dim = 128,
                                        .warps = 8,
                                        .feeders = 0,
                                        .slots = 3,
                                        .query_steps_in_registers = 8,
                                        .columns = 4,
                                        .blocks_per_multiprocessor = 1};
inline constexpr ForwardTile ampere_256{.dim = 256,
                                        .warps = 4,
                                        .feeders = 0,
                                        .slots = 2,
                                        .query_steps_in_registers = 0,
                                        .columns = 2,
                                        .blocks_per_multiprocessor = 1};

constexpr ForwardTile tile_of(Form form, int dim) {
  if (form == Form::m16n8k8) return dim == 64 ? turing_64 : turing_128;
  return dim == 64 ? ampere_64 : dim == 128 ? ampere_128 : ampere_256;
}

// The largest head_dim and value_dim.
constexpr int largest_dim(Form form) { return form == Form::m16n8k8 ? 128 : 256; }

// Both planes of 16 rows and 16 channels of Q for each warp and step.
constexpr std::int64_t query_bytes(const ForwardTile& tile) {
  return std::int64_t{1024} * tile.warps * (tile.dim / 16 - tile.query_steps_in_registers);
}
constexpr std::int64_t shared_bytes(const ForwardTile& tile) {
  return query_bytes(tile) + std::int64_t{tile.slots} * slot_bytes;
}

// What is known of a key tile besides its planes. Exponents are integers held as floats.
struct alignas(16) TileHeader {
  float key_unit;          // K = planes * key_unit, a power of two
  std::int32_t key_flags;  // of KeyFlags
  float tile_exponent;     // the largest r_j
  std::int32_t value_flags;
  std::int32_t listed_keys, listed_values;  // rows of K, and of V, with a NaN or inf: their planes are 0
  float value_factor[block_kv];             // 2^(r_j - tile_exponent). Only read in a wide tile
  std::int16_t value_exponent[block_kv];    // r_j: |v_j| < 2^r_j. Only read in a wide tile
  std::uint8_t listed_key[block_kv], listed_value[block_kv];
};
static_assert(sizeof(TileHeader) % 16 == 0 && offsetof(TileHeader, listed_keys) == 16,
              "the first 16 bytes are read at once");

// Bits of key_flags and value_flags.
inline constexpr std::int32_t is_suspicious = 1;  // rows that see the tile may have to be computed again
inline constexpr std::int32_t is_wide = 2;  // some row of V lies more than 2^10 below the largest: rows have
                                            // exponents of their own

}  // namespace runmax::mma_sync
