// One warp multiplies small matrices by the kernels' own instructions and images. Host side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runmax::kit {

enum class Instruction { m16n8k8, m16n8k16 };

// a (16 x 64) times b (64 deep, 64 columns), 16 x 64: a as fragments from the layout that the instruction's
// notes give, b through a tile::fragments image, in the given plane alone. Empty where the device has no such
// instruction.
struct Product {
  std::vector<float> d;
  std::string error;  // of CUDA; empty if there was none
};
Product multiply_by(Instruction instruction, const std::vector<float>& a, const std::vector<float>& b,
                    bool low_plane);

}  // namespace runmax::kit
