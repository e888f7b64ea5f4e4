// One warpgroup multiplies small matrices by wgmma as the kernels do, through their descriptors and images.
// Host side.
#pragma once

#include <string>
#include <vector>

namespace runmax::kit {

// How a product's operands reach the instruction: A as a descriptor (ss) or in registers (rs), B K-major or
// MN-major (mn), and the columns of one instruction.
enum class Product { ss_n16, ss_n32, ss_n64, ss_n96, ss_n128, rs_n128, rs_mn_n32, rs_mn_n64, rs_mn_n128 };

inline constexpr int product_rows = 64;
inline constexpr int product_depth = 128;  // two images of 64 side by side, eight steps of 16

// Columns of B. rs_mn_n32 takes 128 of them in four instructions, two from each image.
constexpr int product_columns(Product product) {
  switch (product) {
    case Product::ss_n16:
      return 16;
    case Product::ss_n32:
      return 32;
    case Product::ss_n64:
    case Product::rs_mn_n64:
      return 64;
    case Product::ss_n96:
      return 96;
    default:
      return 128;
  }
}

// a (64 x 128) times b (128 x columns), row by row.
struct Multiplied {
  std::vector<float> d;
  std::string error;  // of CUDA; empty if there was none
};
Multiplied multiply_by(Product product, const std::vector<float>& a, const std::vector<float>& b);

}  // namespace runmax::kit
