// `runmax run --dout`: the gradients of a loss with respect to the user's own arrays.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/attention_arrays.hpp"
#include "cli/commands.hpp"
#include "files/output_files.hpp"
#include "runmax/backward.hpp"

namespace runmax::cli {

// The gradients, in the layout and the type of the inputs; dbias and dsink are f32, or f64 for f64, and empty
// if the problem has no such option.
struct GradientArrays {
  std::vector<std::byte> dq, dk, dv, dbias, dsink;
  files::Element element = files::Element::f32, shared_element = files::Element::f32;
  files::Shape dq_shape, dk_shape, dv_shape, dbias_shape, dsink_shape;
  std::string kernel;
  double time_ms = 0;
};

// A gradient that is to be written, and where.
struct NamedGradient {
  const char* option;  // "--dq"
  const char* name;    // "dq"
  const std::string& path;
  const std::vector<std::byte>& values;
  const files::Shape& shape;
  files::Element element;
};

// "--dq" and its path, ...: every gradient that the arguments name, in this order.
std::vector<std::pair<const char*, const std::string*>> gradient_paths(const RunArguments& arguments);

// Those with elements of their own for this problem, wanted or not.
std::vector<NamedGradient> named_gradients(const RunArguments& arguments, const GradientArrays& arrays);

// What is asked for without what it needs, before anything is read.
Status check_gradient_paths(const RunArguments& arguments);

// Runs backward on the host's arrays. `forward` are the tensors of the forward call with the o and lse that
// it wrote, `dout` the user's array, which must have the shape of o, and `dout_bytes` its elements in the
// problem's type.
Result<GradientArrays> compute_gradients(const Problem& problem, const DeviceFacts& facts,
                                         const RunArguments& arguments, const Tensors& forward,
                                         const NamedArray& dout, std::span<const std::byte> dout_bytes,
                                         Layout layout, const files::Shape& q_shape,
                                         const files::Shape& k_shape, const files::Shape& v_shape);

// The element types of a problem's arrays in files, and of its LSE.
files::Element element_of(DType dtype);
DType lse_type(DType dtype);

}  // namespace runmax::cli
