#pragma once
/// runtime/device/cuda/cuda_error.h: a CUDA error as an Error. "No driver", "driver too old" and
/// "no device" are all kNoDevice.

#include <cuda_runtime_api.h>

#include <string>

#include "runtime/base/result.h"

namespace dlrun::device {

inline Status cuda_status(cudaError_t error, const std::string& what) {
  switch (error) {
    case cudaSuccess:
      return {};
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorStubLibrary:
      return fail(Errc::kNoDevice, std::string("no GPU: ") + cudaGetErrorString(error));
    case cudaErrorMemoryAllocation:
      return fail(Errc::kResourceExhausted, what + ": " + cudaGetErrorString(error));
    default:
      return fail(Errc::kIo, what + ": " + cudaGetErrorString(error));
  }
}

}  // namespace dlrun::device
