// Gradients of attention with respect to Q, K and V, from what forward left: O and LSE.
//
//   Problem -> plan_backward(problem, device facts) -> Plan -> run_backward(plan, tensors, gradients,
//   workspace)
//
// No score matrix is stored: each tile's weights are computed again from Q, K and the saved LSE, as in
// FlashAttention (Dao et al., arXiv 2205.14135, appendix B.2, and FlashAttention-2, arXiv 2307.08691,
// algorithm 2). With dO the gradient of the loss with respect to O, for query i, key j and channel c, in
// natural units:
//
//   P_ij    = exp(score_ij - LSE_i)
//   delta_i = sum_c dO_ic O_ic
//   dS_ij   = P_ij (sum_c dO_ic V_jc - delta_i)
//   dV_jc   = sum_i P_ij dO_ic
//   dQ_ic   = softmax_scale * sum_j dS_ij K_jc
//   dK_jc   = softmax_scale * sum_i dS_ij Q_ic
//
// Options: with a softcap, dS by the score before it is that above times 1 - (capped score / softcap)^2;
// dBias is dS summed over the dimensions in which the bias is broadcast; with dropout, P in dV and sum_c dO V
// in dS carry the kept weights' factor, or 0; dSink = - sum P_sink delta. Slopes and masks have no gradient.
// Packed, paged and partly used batches: as forward. What lies behind an element's length, and what no
// element uses of a pool, has the gradient 0; a page that several use has the sum over them.
//
// Sums over i run over the query rows that see key j, in all query heads that share j's KV head; sums over j
// over the keys that row i sees. A row that sees no key, or whose LSE is -inf, adds nothing anywhere, and its
// dQ is 0. Memory that a mask hides is not read into a result, whatever it holds.
#ifndef RUNMAX_BACKWARD_HPP
#define RUNMAX_BACKWARD_HPP

#include <string_view>
#include <vector>

#include "runmax/export.hpp"
#include "runmax/problem.hpp"
#include "runmax/runmax.hpp"
#include "runmax/status.hpp"
#include "runmax/tensor.hpp"

namespace runmax {

// Views of the caller's memory, in the problem's dtype (f16 and bf16: sums are FP32 and rounded once);
// any strides, but outputs may not be broadcast. Every element of an output is written, whatever it held.
// Outputs must not overlap inputs or one another.
struct Gradients {
  TensorView dout{};  // in, the shape of O: the gradient of the loss with respect to O
  TensorView dq{};    // out, the shape of Q
  TensorView dk{};    // out, the shape of K: the sum over the query heads of the group
  TensorView dv{};    // out, the shape of V: likewise

  // Out, for a problem that has the option; empty if not wanted.
  // f32, or f64 for f64.
  TensorView dbias{};  // the shape of the bias: summed over the dimensions in which the bias is broadcast
  TensorView dsink{};  // (1, query_heads, 1, 1): summed over batch and rows
};

// Chooses a backward kernel. PlanOptions as for plan; the kernels are those of list_backward_kernels. Fails
// as plan does. A Plan of plan_backward is for run_backward alone.
RUNMAX_API Result<Plan> plan_backward(const Problem& problem, const DeviceFacts& facts,
                                      const PlanOptions& options = {});

// Computes the gradients. `tensors` are those of the forward call: its inputs, and the o and lse that it
// wrote; lse is needed. Shapes, dtypes and devices of all views, page tables and lengths are checked first.
// The same inputs give the same bits in every run and with any number of threads.
RUNMAX_API Status run_backward(const Plan& plan, const Tensors& tensors, const Gradients& gradients,
                               Workspace workspace, Stream stream = nullptr);

// Floating-point operations of backward: the five products S, dP, dV, dQ and dK, each counted once.
// 2 * visible_pairs * (3 * head_dim + 2 * value_dim): 2.5 times forward where head_dim = value_dim.
RUNMAX_API double backward_flops(const Problem& problem);
RUNMAX_API std::string_view backward_flops_formula();

// Every backward kernel, in the order in which plan_backward asks them.
RUNMAX_API std::vector<KernelInfo> list_backward_kernels();

}  // namespace runmax

#endif  // RUNMAX_BACKWARD_HPP
