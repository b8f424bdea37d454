// Kernels over loads, stores, asynchronous copies and atomics.
#include "kernels/cuda/gpu.h"
#include "tests/kernels/cuda/wrapper_kernels.h"

namespace wrappers {

namespace gpu = nvllm::gpu;

namespace {

__global__ void copy_asynchronously_kernel(const uint32_t* in, const int* bytes_read,
                                           uint32_t* out) {
    GPU_DYNAMIC_SHARED(uint4, tile);
    gpu::cp_async16(&tile[threadIdx.x], in + threadIdx.x * 4, bytes_read[threadIdx.x]);
    gpu::cp_async_commit();
    gpu::cp_async_wait<0>();
    __syncthreads();
    const unsigned other = blockDim.x - 1 - threadIdx.x;
    gpu::store16(out + other * 4, gpu::load16(&tile[other]));
}

// Of one stage; eight threads copy 16 bytes each.
constexpr int kStageWords = 32;

__device__ __forceinline__ void start_stage(uint32_t* stage, const uint32_t* in, bool wanted) {
    if (wanted && threadIdx.x < kStageWords / 4)
        gpu::cp_async16(stage + threadIdx.x * 4, in + threadIdx.x * 4);
    gpu::cp_async_commit();
}

__global__ void copy_in_stages_kernel(const uint32_t* in, uint32_t* out, int stages) {
    GPU_SHARED(uint4, memory, [2][kStageWords / 4]);
    start_stage(reinterpret_cast<uint32_t*>(memory[0]), in, true);
    for (int stage = 0; stage < stages; ++stage) {
        auto* next = reinterpret_cast<uint32_t*>(memory[(stage + 1) % 2]);
        start_stage(next, in + (stage + 1) * kStageWords, stage + 1 < stages);
        gpu::cp_async_wait<1>();
        __syncthreads();
        const auto* present = reinterpret_cast<const uint32_t*>(memory[stage % 2]);
        const unsigned turned = kStageWords - 1 - threadIdx.x % kStageWords;
        if (threadIdx.x < kStageWords) out[stage * kStageWords + turned] = present[turned] + 1;
        __syncthreads();
    }
    gpu::cp_async_wait<0>();
}

__global__ void loads_and_stores_kernel(const uint32_t* in, uint32_t* out) {
    const unsigned i = threadIdx.x;
    if (i == 0) gpu::store16(out, gpu::load16(in));
    if (i == 1) gpu::store16(out + 4, gpu::load_streaming16(in + 4));
    if (i == 2) gpu::store8(out + 8, gpu::load8(in + 8));
    if (i == 3) gpu::store4(out + 10, gpu::load4(in + 10));
    if (i == 4) out[11] = gpu::load_read_only(in + 11);
}

__global__ void atomic_counters_kernel(uint32_t* counters) {
    const uint32_t number = blockIdx.x * blockDim.x + threadIdx.x;
    gpu::atomic_add(&counters[0], 1u);
    gpu::atomic_max(&counters[1], number);
    gpu::atomic_min(&counters[2], number);
    gpu::atomic_or(&counters[3], 1u << number % 32);
    gpu::atomic_exchange(&counters[4], number + 1);
    uint32_t expected = gpu::load_volatile(&counters[5]);
    while (true) {
        const uint32_t before = gpu::atomic_cas(&counters[5], expected, expected + 2);
        if (before == expected) break;
        expected = before;
    }
    gpu::atomic_add(reinterpret_cast<float*>(&counters[6]), 0.5f);
}

}  // namespace

void copy_asynchronously(const uint32_t* in, const int* bytes_read, uint32_t* out, int threads) {
    gpu::launch(
        copy_asynchronously_kernel,
        {.grid = {1}, .block = {threads}, .shared_bytes = static_cast<size_t>(threads) * 16}, in,
        bytes_read, out);
}

void copy_in_stages(const uint32_t* in, uint32_t* out, int stages) {
    gpu::launch(copy_in_stages_kernel, {.grid = {1}, .block = {64}}, in, out, stages);
}

void loads_and_stores(const uint32_t* in, uint32_t* out) {
    gpu::launch(loads_and_stores_kernel, {.grid = {1}, .block = {kLanes}}, in, out);
}

void atomic_counters(uint32_t* counters, int blocks) {
    gpu::launch(atomic_counters_kernel, {.grid = {blocks}, .block = {64}}, counters);
}

}  // namespace wrappers
