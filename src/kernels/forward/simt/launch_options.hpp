// The simt forward kernel for problems with options.
#pragma once

#include "kernels/forward/simt/config.hpp"
#include "runmax/runmax.hpp"

namespace runmax::simt {

// Defined only in a build with CUDA.
Status run_with_options(const Plan& plan, const ForwardConfig& config, const Tensors& tensors,
                        Workspace workspace, Stream stream);

}  // namespace runmax::simt
