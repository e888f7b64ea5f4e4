// Where an element of a tile image lies: 128-byte rows of 64 16-bit elements, 16-byte pieces permuted by row.
#pragma once

#include <cstdint>

#include "runmax/online_softmax.hpp"

namespace runmax::tile {

// Columns of one image: 64 elements of 16 bits are the 128 bytes that the swizzle permutes.
inline constexpr int image_columns = 64;

// Byte offset of element (row, column), column < 64, in an image whose base is 1024-byte aligned. The eight
// 16-byte pieces of row r stand at piece ^ (r mod 8): the layout that wgmma descriptors call 128-byte
// swizzle.
RUNMAX_HOST_DEVICE constexpr std::uint32_t swizzled_offset(std::uint32_t row, std::uint32_t column) {
  return row * 128 + (((column / 8) ^ (row % 8)) * 16) + column % 8 * 2;
}

static_assert(swizzled_offset(0, 0) == 0 && swizzled_offset(1, 0) == 128 + 16 &&
              swizzled_offset(9, 63) == 9 * 128 + 6 * 16 + 14);

}  // namespace runmax::tile
