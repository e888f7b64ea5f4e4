// Compiles the loops of the options once per instruction set and picks one at run time.
#include "kernels/forward/cpu/score_options.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/forward/cpu/score_options.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/forward/cpu/score_options-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {

const OptionFunctions* option_table() {
  static const OptionFunctions table{hwy::TargetName(HWY_TARGET), transform, drop, tanh_array};
  return &table;
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace runmax::cpu {

HWY_EXPORT(option_table);

const OptionFunctions& option_functions() { return *HWY_DYNAMIC_DISPATCH(option_table)(); }

}  // namespace runmax::cpu
#endif
