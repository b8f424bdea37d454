// Launches through the runtime.
#pragma once

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

#include "kernels/cuda/gpu/extent.h"
#include "kernels/cuda/runtime_error.h"

namespace nvllm::gpu {

// The kernel launched after this one may be put in place; what the ones before have written is
// there, and nothing of what they read is needed any more.
__device__ __forceinline__ void wait_for_work_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

// An attribute of the calling thread's device.
template <cudaDeviceAttr attribute>
int device_attribute() {
    thread_local int asked = -1;
    thread_local int value = 0;
    int device = 0;
    cuda::check(cudaGetDevice(&device), "asking for the device");
    if (device != asked) {
        cuda::check(cudaDeviceGetAttribute(&value, attribute, device),
                    "asking what the device can do");
        asked = device;
    }
    return value;
}

// Whether it takes launches that overlap.
inline bool can_overlap() { return device_attribute<cudaDevAttrComputeCapabilityMajor>() >= 9; }

// Of shared memory, for a block.
inline size_t most_shared_bytes() {
    return static_cast<size_t>(device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>());
}

// Runs kernel(args...) for every thread of the shape, in the order of its stream. Throws Error when
// the launch is refused.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& shape, Arguments&&... arguments) {
    static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                  "kernel parameters are copied as bytes");
    if (shape.shared_bytes > kSharedWithoutAsking) {
        cuda::check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shape.shared_bytes)),
                    "asking for shared memory");
    }
    std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
    std::apply(
        [&](auto&... value) {
            void* addresses[] = {static_cast<void*>(&value)..., nullptr};
            cudaLaunchAttribute overlap{};
            overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
            overlap.val.programmaticStreamSerializationAllowed = 1;
            cudaLaunchConfig_t config{};
            config.gridDim = dim3(shape.grid.x, shape.grid.y, shape.grid.z);
            config.blockDim = dim3(shape.block.x, shape.block.y, shape.block.z);
            config.dynamicSmemBytes = shape.shared_bytes;
            config.stream = static_cast<cudaStream_t>(shape.stream);
            config.attrs = &overlap;
            config.numAttrs = shape.overlaps && can_overlap() ? 1 : 0;
            cuda::check(
                cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), addresses),
                "launching a kernel");
        },
        values);
}

}  // namespace nvllm::gpu
