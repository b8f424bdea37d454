// What the runtime knows of kernels, asked once for each and each device.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/primitives/extent.h"
#include "kernels/cuda/primitives/overlap.h"
#include "kernels/cuda/primitives/runtime_error.h"

namespace nvllm::gpu {

struct KernelInfo {
    bool waits = false;                          // waits_for_work_before()
    size_t shared_bytes = kSharedWithoutAsking;  // of dynamic shared memory that it may have
};

inline KernelInfo ask_about(const void* kernel) {
    cudaFuncAttributes attributes{};
    cuda::check(cudaFuncGetAttributes(&attributes, kernel), "asking about a kernel");
    KernelInfo info;
    info.waits = waits_for_work_before({attributes.ptxVersion, attributes.binaryVersion});
    return info;
}

// Lets a kernel have that much dynamic shared memory on the calling thread's device, and returns
// whether its launches may overlap the ones before.
inline bool prepare_launch(const void* kernel, size_t shared_bytes) {
    static std::mutex mutex;
    // Never destroyed: launches may come as late as a process ends.
    static auto& known = *new std::map<std::pair<const void*, int>, KernelInfo>();
    int device = 0;
    cuda::check(cudaGetDevice(&device), "asking for the device");
    const std::lock_guard lock(mutex);
    auto found = known.find({kernel, device});
    if (found == known.end()) {
        found = known.emplace(std::pair(kernel, device), ask_about(kernel)).first;
    }
    KernelInfo& info = found->second;
    // Only ever more: another thread's launch may need what it was given.
    if (shared_bytes > info.shared_bytes) {
        cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shared_bytes)),
                    "asking for shared memory");
        info.shared_bytes = shared_bytes;
    }
    return info.waits;
}

}  // namespace nvllm::gpu
