// Where an element of a B operand lies in an image that mma.sync reads lane by lane.
//
// A lane of m16n8k16 holds of B (16 deep, 8 columns) the column g = lane / 4 at depths 2t, 2t + 1, 2t + 8, 2t
// + 9 with t = lane % 4; m16n8k8 holds the first two of them, and then the others. The image keeps those four
// halves of the high plane and of the low plane side by side, 16 bytes a lane, 512 a warp: one 16-byte load
// feeds three products and meets no bank conflict.
#pragma once

#include <cstdint>

#include "runmax/online_softmax.hpp"

namespace runmax::tile {

enum class Plane { hi, lo };

// An image is 64 columns x 64 deep in both planes.
inline constexpr int fragment_columns = 64, fragment_depth = 64;
inline constexpr int fragment_image_bytes = 4 * fragment_columns * fragment_depth;

// Byte offset of the 16 bytes that a lane reads for 8 columns and 16 deep.
RUNMAX_HOST_DEVICE constexpr std::uint32_t fragment_offset(std::uint32_t columns_8, std::uint32_t depth_16,
                                                           std::uint32_t lane) {
  return ((depth_16 * (fragment_columns / 8) + columns_8) * 32 + lane) * 16;
}

// The column, and the first of the four depths (d, d + 1, d + 8, d + 9), of a lane's 16 bytes.
RUNMAX_HOST_DEVICE constexpr int fragment_column(int columns_8, int lane) { return columns_8 * 8 + lane / 4; }
RUNMAX_HOST_DEVICE constexpr int fragment_first_depth(int depth_16, int lane) {
  return depth_16 * 16 + lane % 4 * 2;
}

// Byte offset of one element.
RUNMAX_HOST_DEVICE constexpr std::uint32_t fragment_element(Plane plane, std::uint32_t column,
                                                            std::uint32_t depth) {
  return fragment_offset(column / 8, depth / 16, column % 8 * 4 + depth % 8 / 2) +
         (plane == Plane::lo ? 8 : 0) + depth % 16 / 8 * 4 + depth % 2 * 2;
}

static_assert(fragment_element(Plane::hi, 0, 0) == 0 && fragment_element(Plane::lo, 0, 9) == 8 + 4 + 2 &&
              fragment_element(Plane::hi, 9, 0) == 512 + 64 &&
              fragment_element(Plane::lo, 63, 63) == fragment_image_bytes - 2);

}  // namespace runmax::tile
