// Launches through the runtime.
#pragma once

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

#include "kernels/cuda/primitives/extent.h"
#include "kernels/cuda/primitives/ptx/functions.h"
#include "kernels/cuda/primitives/runtime_error.h"

namespace nvllm::gpu {

// The kernel launched after this one may be put in place; what the ones before have written is
// there, and nothing of what they read is needed any more. Compiled for earlier GPUs this is
// nothing, and launches do not overlap (gpu/overlap.h).
__device__ __forceinline__ void wait_for_work_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

// Of shared memory, for a block of the calling thread's device.
inline size_t max_shared_bytes() {
    thread_local int asked = -1;
    thread_local int value = 0;
    int device = 0;
    cuda::check(cudaGetDevice(&device), "asking for the device");
    if (device != asked) {
        cuda::check(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                    "asking what the device can do");
        asked = device;
    }
    return static_cast<size_t>(value);
}

// Runs kernel(args...) for every thread of the shape, in the order of its stream. Throws Error when
// the launch is refused.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& shape, Arguments&&... arguments) {
    static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                  "kernel parameters are copied as bytes");
    const auto* const function = reinterpret_cast<const void*>(kernel);
    const bool waits = prepare_launch(function, shape.shared_bytes);
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
            config.numAttrs = shape.overlaps && waits ? 1 : 0;
            cuda::check(cudaLaunchKernelExC(&config, function, addresses), "launching a kernel");
        },
        values);
}

}  // namespace nvllm::gpu
