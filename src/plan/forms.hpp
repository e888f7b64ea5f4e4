// What packed, paged and partly used batches ask of their tensors: shapes, and the values of page tables and
// lengths.
#pragma once

#include <array>
#include <cstdint>

#include "plan/views.hpp"
#include "runmax/runmax.hpp"

namespace runmax {

// The shapes that a problem's tensors must have. A pool of pages may have any number of them, and a page
// table any number of columns: those are taken from the tensors given.
struct OperandShapes {
  Shape4 q, k, v, o, lse;
  Shape4 page_table, kv_lengths;
};
OperandShapes operand_shapes(const Problem& problem, const Tensors& tensors);

// The page table and the lengths: there, and of their shape, if and only if the problem's form needs them.
Status check_form_views(const Problem& problem, const Tensors& tensors, const OperandShapes& shapes,
                        Device device);

// A bias is f32, or of the problem's own type.
inline DType bias_dtype(const Problem& problem, const TensorView& bias) {
  return bias.dtype == problem.dtype ? problem.dtype : DType::f32;
}

// Completes a problem whose tensors say what it is: the sizes, and the options that a tensor asks for.
void take_operand_sizes(const Tensors& tensors, Problem& problem);

// Whether the values of page tables and lengths can be looked at, or lie in a device's memory.
enum class FormValues { readable, on_device };

// Lengths against their limits, page indices against the pool: every value that a kernel would use, as far as
// the host can know it. For tensors whose shapes are right.
Status check_form_values(const Problem& problem, const Tensors& tensors, FormValues values);

}  // namespace runmax
