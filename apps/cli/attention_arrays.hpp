// From the shapes of the arrays that a user brings to a problem, and to views of them.
#pragma once

#include <string>
#include <vector>

#include "files/elements.hpp"
#include "runmax/runmax.hpp"

namespace runmax::cli {

// An input array and what error messages call it: "--q q.npy" or "--in x.safetensors: tensor 'q'".
struct NamedArray {
  std::string source;
  files::FloatArray array;
};

// Sizes of the problem whose inputs these are, put into `problem`. All three have the same rank:
//   4  (batch, length, heads, dim) for bshd, (batch, heads, length, dim) for bhsd
//   3  (length, heads, dim) for bshd, (heads, length, dim) for bhsd; one batch element
//   2  (length, dim); one batch element, one head
// An error is one line naming the array, the rule and the values.
Status take_shapes(const NamedArray& q, const NamedArray& k, const NamedArray& v, Layout layout,
                   Problem& problem);

// Shape of the output: that of q, with the value dimension last.
files::Shape output_shape(const files::Shape& q, const Problem& problem);

// Shape of the LSE: (batch, heads, length) of q in both layouts; without the dimensions that q does not have.
files::Shape lse_shape(const files::Shape& q, Layout layout);

// (batch, heads, length, dim) of an array of that rank and layout, with 1 for what it lacks.
std::array<std::int64_t, 4> canonical_shape(const files::Shape& shape, Layout layout);

}  // namespace runmax::cli
