// Launches through the runtime.
#pragma once

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

#include "kernels/cuda/gpu/extent.h"
#include "kernels/cuda/runtime_error.h"

namespace nvllm::gpu {

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
            cuda::check(
                cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                                 dim3(shape.grid.x, shape.grid.y, shape.grid.z),
                                 dim3(shape.block.x, shape.block.y, shape.block.z), addresses,
                                 shape.shared_bytes, static_cast<cudaStream_t>(shape.stream)),
                "launching a kernel");
        },
        values);
}

}  // namespace nvllm::gpu
