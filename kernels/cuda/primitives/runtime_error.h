// What the CUDA runtime answers, as errors.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "kernels/error.h"

namespace nvllm::cuda {

// Whether the context is broken: then every later call fails as well.
inline bool is_lasting(cudaError_t status) {
    static_cast<void>(cudaGetLastError());
    if (status == cudaErrorMemoryAllocation || status == cudaErrorNotReady) return false;
    return cudaDeviceSynchronize() != cudaSuccess;
}

// Throws does_not_fit, DeviceLost when nothing can succeed any more, and internal otherwise, with
// what was being done.
inline void check(cudaError_t status, const char* step) {
    if (status == cudaSuccess) [[likely]]
        return;
    const std::string message = std::string("CUDA: ") + step + ": " + cudaGetErrorString(status) +
                                " (" + cudaGetErrorName(status) + ")";
    if (is_lasting(status)) throw DeviceLost(message);
    if (status == cudaErrorMemoryAllocation) throw Error(ErrorKind::does_not_fit, message);
    throw Error(ErrorKind::internal, message);
}

}  // namespace nvllm::cuda
