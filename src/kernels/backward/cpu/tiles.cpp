// Compiles the SIMD inner loops of backward once per instruction set and picks one at run time.
#include "kernels/backward/cpu/tiles.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/backward/cpu/tiles.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/backward/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {

const BackwardFunctions* backward_table() {
  static const BackwardFunctions table{hwy::TargetName(HWY_TARGET),
                                       pairs,
                                       products,
                                       weigh_row,
                                       gradient_row,
                                       add_to_queries,
                                       add_to_keys,
                                       row_dots,
                                       all_finite};
  return &table;
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace runmax::cpu {

HWY_EXPORT(backward_table);

const BackwardFunctions& backward_functions() { return *HWY_DYNAMIC_DISPATCH(backward_table)(); }

}  // namespace runmax::cpu
#endif
