// From the CUDA runtime's error codes to Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "runmax/status.hpp"

namespace runmax {

// `what` says what was being done: "allocating 64 bytes".
inline Status cuda_status(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  const StatusCode code =
      error == cudaErrorMemoryAllocation ? StatusCode::out_of_memory : StatusCode::device_error;
  return {code, "cuda: " + what + ": " + cudaGetErrorString(error)};
}

}  // namespace runmax
