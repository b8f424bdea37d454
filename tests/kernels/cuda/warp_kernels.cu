// Kernels over the functions of a warp and a block.
#include "kernels/cuda/gpu.h"
#include "tests/kernels/cuda/wrapper_kernels.h"

namespace wrappers {

namespace gpu = nvllm::gpu;

namespace {

template <WarpOperation operation>
__global__ void warp_operation_kernel(const uint32_t* values, uint32_t* out, int argument) {
    const uint32_t value = values[threadIdx.x];
    uint32_t result = 0;
    if constexpr (operation == WarpOperation::shuffle) result = gpu::shuffle(value, argument);
    if constexpr (operation == WarpOperation::shuffle_xor)
        result = gpu::shuffle_xor(value, argument);
    if constexpr (operation == WarpOperation::shuffle_down)
        result = gpu::shuffle_down(value, argument);
    if constexpr (operation == WarpOperation::shuffle_up) result = gpu::shuffle_up(value, argument);
    if constexpr (operation == WarpOperation::ballot) result = gpu::ballot(value % 3 == 0);
    if constexpr (operation == WarpOperation::any) result = gpu::any(value == 40);
    if constexpr (operation == WarpOperation::all) result = gpu::all(value < 40);
    if constexpr (operation == WarpOperation::lane) result = static_cast<uint32_t>(gpu::lane_id());
    if constexpr (operation == WarpOperation::warp) result = static_cast<uint32_t>(gpu::warp_id());
    out[threadIdx.x] = result;
}

__global__ void sums_of_halves_kernel(const uint32_t* values, uint32_t* out) {
    uint32_t sum = values[threadIdx.x];
    const uint32_t mask = gpu::lane_id() % 2 == 0 ? 0x55555555u : 0xaaaaaaaau;
    for (int distance = 16; distance > 1; distance /= 2)
        sum += gpu::shuffle_xor(sum, distance, mask);
    gpu::sync_warp(mask);
    out[threadIdx.x] = sum;
}

__global__ void block_reductions_kernel(const float* values, float* out) {
    GPU_SHARED(float, shared, [32]);
    GPU_SHARED(float, answers, [2]);
    const float sum = gpu::block_sum(values[threadIdx.x], shared);
    const float most = gpu::block_max(values[threadIdx.x], shared);
    if (threadIdx.x == 0) {
        answers[0] = sum;
        answers[1] = most;
    }
    __syncthreads();
    if (threadIdx.x < 2) out[threadIdx.x] = answers[threadIdx.x];
    __syncthreads();
    if (answers[0] != sum || answers[1] != most) out[0] = out[1] = gpu::bits_as_float(0x7fffffffu);
}

template <WarpOperation operation>
void launch_operation(const uint32_t* values, uint32_t* out, int argument) {
    gpu::launch(warp_operation_kernel<operation>, {.grid = {1}, .block = {2 * kLanes}}, values, out,
                argument);
}

}  // namespace

void warp_operation(WarpOperation operation, const uint32_t* values, uint32_t* out, int argument) {
    switch (operation) {
        case WarpOperation::shuffle:
            return launch_operation<WarpOperation::shuffle>(values, out, argument);
        case WarpOperation::shuffle_xor:
            return launch_operation<WarpOperation::shuffle_xor>(values, out, argument);
        case WarpOperation::shuffle_down:
            return launch_operation<WarpOperation::shuffle_down>(values, out, argument);
        case WarpOperation::shuffle_up:
            return launch_operation<WarpOperation::shuffle_up>(values, out, argument);
        case WarpOperation::ballot:
            return launch_operation<WarpOperation::ballot>(values, out, argument);
        case WarpOperation::any:
            return launch_operation<WarpOperation::any>(values, out, argument);
        case WarpOperation::all:
            return launch_operation<WarpOperation::all>(values, out, argument);
        case WarpOperation::lane:
            return launch_operation<WarpOperation::lane>(values, out, argument);
        case WarpOperation::warp:
            return launch_operation<WarpOperation::warp>(values, out, argument);
    }
}

void sums_of_halves(const uint32_t* values, uint32_t* out) {
    gpu::launch(sums_of_halves_kernel, {.grid = {1}, .block = {kLanes}}, values, out);
}

void block_reductions(const float* values, float* out, int threads) {
    gpu::launch(block_reductions_kernel, {.grid = {1}, .block = {threads}}, values, out);
}

}  // namespace wrappers
