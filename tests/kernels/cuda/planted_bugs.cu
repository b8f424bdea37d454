// Kernels that are wrong on purpose.
#include "tests/kernels/cuda/planted_bugs.h"

#include "kernels/cuda/gpu.h"

namespace planted {

namespace gpu = nvllm::gpu;

namespace {

constexpr int kThreads = 128;
constexpr int kStage = 32;  // words
constexpr int kStages = kWords / kStage;

using Kernel = void (*)(const uint32_t*, uint32_t*);

// Sums of warps, added up by all threads.
__global__ void no_barrier_before_use(const uint32_t* in, uint32_t* out) {
    GPU_SHARED(uint32_t, sums, [kThreads / 32]);
    const uint32_t sum = gpu::warp_sum(in[threadIdx.x]);
    if (gpu::lane_id() == 0) sums[gpu::warp_id()] = sum;
    out[threadIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
}

__device__ __forceinline__ void start_stage(uint4* stage, const uint32_t* in, int number) {
    if (threadIdx.x < kStage / 4 && number < kStages) {
        gpu::cp_async16(stage + threadIdx.x, in + number * kStage + threadIdx.x * 4);
    }
    gpu::cp_async_commit();
}

// Two stages of shared memory; every warp reads what the first one has copied.
template <int groups_left, bool barrier_at_end>
__global__ void pipeline(const uint32_t* in, uint32_t* out) {
    GPU_SHARED(uint4, memory, [2][kStage / 4]);
    start_stage(memory[0], in, 0);
    for (int number = 0; number < kStages; ++number) {
        start_stage(memory[(number + 1) % 2], in, number + 1);
        gpu::cp_async_wait<groups_left>();
        __syncthreads();
        const auto* stage = reinterpret_cast<const uint32_t*>(memory[number % 2]);
        if (gpu::warp_id() == 3) out[number * kStage + gpu::lane_id()] = stage[gpu::lane_id()];
        if (barrier_at_end) __syncthreads();
    }
    gpu::cp_async_wait<0>();
}

__global__ void source_overwritten_in_flight(const uint32_t* in, uint32_t* out) {
    GPU_SHARED(uint4, stage, [1]);
    if (threadIdx.x != 0) return;
    out[0] = in[0];
    gpu::cp_async16(stage, out);
    gpu::cp_async_commit();
    out[0] = in[0] + 1;
    gpu::cp_async_wait<0>();
    out[1] = stage[0].x;
}

__global__ void thread_ends_before_barrier(const uint32_t* in, uint32_t* out) {
    if (threadIdx.x == 5) return;
    __syncthreads();
    out[threadIdx.x] = in[threadIdx.x];
}

__global__ void divergent_barrier(const uint32_t* in, uint32_t* out) {
    if (threadIdx.x < 64) {
        out[threadIdx.x] = in[threadIdx.x];
        __syncthreads();
    } else {
        __syncthreads();
        out[threadIdx.x] = in[threadIdx.x];
    }
}

__global__ void barrier_in_half_a_warp(const uint32_t* in, uint32_t* out) {
    if (gpu::lane_id() < 16) __syncthreads();
    out[threadIdx.x] = gpu::shuffle_xor(in[threadIdx.x], 1);
}

__global__ void copy_never_waited_for(const uint32_t* in, uint32_t* out) {
    GPU_SHARED(uint4, stage, [kThreads]);
    gpu::cp_async16(&stage[threadIdx.x], in);
    gpu::cp_async_commit();
    out[threadIdx.x] = 0;
}

__global__ void lane_not_in_own_mask(const uint32_t* in, uint32_t* out) {
    out[threadIdx.x] = gpu::shuffle_xor(in[threadIdx.x], 1, 0x0000ffffu);
}

__global__ void mask_names_ended_lane(const uint32_t* in, uint32_t* out) {
    if (gpu::lane_id() == 0) return;
    out[threadIdx.x] = gpu::ballot(in[threadIdx.x] != 0);
}

__global__ void mask_beyond_block(const uint32_t* in, uint32_t* out) {
    out[threadIdx.x] = gpu::warp_sum(in[threadIdx.x]);  // in a block of 40 threads
}

__global__ void shuffle_of_lane_outside_mask(const uint32_t* in, uint32_t* out) {
    if (gpu::lane_id() >= 16) return;
    out[threadIdx.x] = gpu::shuffle_down(in[threadIdx.x], 8, 0x0000ffffu);
}

__global__ void unequal_masks(const uint32_t* in, uint32_t* out) {
    const uint32_t mask = gpu::lane_id() < 16 ? 0x0001ffffu : 0xffff8000u;
    out[threadIdx.x] = gpu::shuffle_xor(in[threadIdx.x], 1, mask);
}

__global__ void different_operations_meet(const uint32_t* in, uint32_t* out) {
    out[threadIdx.x] =
        gpu::lane_id() < 16 ? gpu::shuffle_xor(in[threadIdx.x], 1) : gpu::ballot(true);
}

// The lanes of a warp exchange words through shared memory.
template <bool ordered>
__global__ void exchange_in_warp(const uint32_t* in, uint32_t* out) {
    GPU_SHARED(uint32_t, words, [kThreads]);
    words[threadIdx.x] = gpu::shuffle_xor(in[threadIdx.x], 1);
    if (ordered) gpu::sync_warp();
    const uint32_t votes = gpu::ballot(true);
    out[threadIdx.x] = words[threadIdx.x ^ 2u] & votes;
}

__global__ void static_array_overrun(const uint32_t* in, uint32_t* out) {
    GPU_SHARED(uint32_t, words, [kThreads]);
    words[threadIdx.x + 1] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = words[threadIdx.x];
}

__global__ void dynamic_memory_overrun(const uint32_t* in, uint32_t* out) {
    GPU_DYNAMIC_SHARED(uint32_t, words);
    words[threadIdx.x] = in[threadIdx.x];  // with room for one thread less
    __syncthreads();
    out[threadIdx.x] = threadIdx.x == 0 ? 0 : words[threadIdx.x - 1];
}

__global__ void misaligned_load(const uint32_t* in, uint32_t* out) {
    gpu::store16(out + 4 * gpu::lane_id(), gpu::load16(in + 4 * gpu::lane_id() + 1));
}

__global__ void misaligned_matrix_row(const uint32_t* in, uint32_t* out) {
    GPU_SHARED(uint32_t, words, [kWords]);
    for (int i = gpu::lane_id(); i < kWords; i += 32) words[i] = in[i];
    __syncthreads();
    uint32_t r[4];
    gpu::ldmatrix_x4(r, &words[gpu::lane_id() * 4 + 2 * (gpu::lane_id() == 7)]);
    out[gpu::lane_id()] = r[0] + r[1] + r[2] + r[3];
}

__global__ void matrix_row_in_global_memory(const uint32_t* in, uint32_t* out) {
    uint32_t r[4];
    gpu::ldmatrix_x4(r, in + gpu::lane_id() * 4);
    out[gpu::lane_id()] = r[0] + r[1] + r[2] + r[3];
}

__global__ void places_out_of_order(const uint32_t*, uint32_t* out) {
    float d[4] = {};
    const uint32_t zeros[4] = {};
    // Of each four the first and the second; but of lane 5 the second twice.
    const uint32_t places = gpu::lane_id() == 5 ? 0x44445444u : 0x44444444u;
    gpu::mma_sparse_m16n8k32<__half, 0>(d, zeros, zeros, places);
    out[gpu::lane_id()] = static_cast<uint32_t>(d[0]);
}

__global__ void misaligned_copy(const uint32_t* in, uint32_t*) {
    GPU_SHARED(uint4, stage, [1]);
    if (threadIdx.x == 0) gpu::cp_async16(stage, in + 2);
    gpu::cp_async_commit();
    gpu::cp_async_wait<0>();
}

__global__ void lost_updates(const uint32_t*, uint32_t* out) {
    GPU_SHARED(uint32_t, count, [1]);
    if (threadIdx.x == 0) count[0] = 0;
    __syncthreads();
    count[0] = count[0] + 1;
    __syncthreads();
    if (threadIdx.x == 0) out[0] = count[0];
}

__global__ void blocks_write_the_same(const uint32_t* in, uint32_t* out) {
    out[threadIdx.x + blockIdx.x * (kThreads - 1)] = in[threadIdx.x];  // one word overlaps
}

// The last block to end adds up what the others have left.
template <bool fenced>
__global__ void last_block_sums(const uint32_t* in, uint32_t* out) {
    GPU_SHARED(uint32_t, last, [1]);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = in[blockIdx.x];
        if (fenced) gpu::thread_fence();
        last[0] = gpu::atomic_add(&out[kWords - 1], 1u);
    }
    __syncthreads();
    if (last[0] != gridDim.x - 1 || threadIdx.x != 0) return;
    uint32_t sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += out[i];
    out[kWords - 2] = sum;
}

__global__ void poll_for_nothing(const uint32_t*, uint32_t* out) {
    if (threadIdx.x != 0) return;
    out[0] = 0;
    while (gpu::load_volatile(&out[0]) == 0) {
    }
}

__global__ void read_shared_columns_kernel(int stride, uint32_t* out) {
    GPU_DYNAMIC_SHARED(uint32_t, words);
    for (int i = 0; i < stride; ++i)
        words[i * 32 + gpu::lane_id()] = static_cast<uint32_t>(i * 32 + gpu::lane_id());
    __syncthreads();
    out[gpu::lane_id()] = words[gpu::lane_id() * stride];
}

__global__ void read_global_with_stride_kernel(const uint32_t* in, int stride, uint32_t* out) {
    out[gpu::lane_id()] = in[gpu::lane_id() * stride];
}

struct Case {
    Kernel kernel;
    int blocks = 1;
    int threads = kThreads;
    size_t shared_bytes = 0;
};

Case case_of(Bug bug) {
    switch (bug) {
        case Bug::none:
            return {pipeline<1, true>};
        case Bug::no_barrier_before_use:
            return {no_barrier_before_use};
        case Bug::no_barrier_at_end_of_stage:
            return {pipeline<1, false>};
        case Bug::wait_one_too_high:
            return {pipeline<2, true>};
        case Bug::source_overwritten_in_flight:
            return {source_overwritten_in_flight};
        case Bug::thread_ends_before_barrier:
            return {thread_ends_before_barrier};
        case Bug::divergent_barrier:
            return {divergent_barrier};
        case Bug::barrier_in_half_a_warp:
            return {barrier_in_half_a_warp};
        case Bug::copy_never_waited_for:
            return {copy_never_waited_for};
        case Bug::lane_not_in_own_mask:
            return {lane_not_in_own_mask};
        case Bug::mask_names_ended_lane:
            return {mask_names_ended_lane};
        case Bug::mask_beyond_block:
            return {mask_beyond_block, 1, 40};
        case Bug::shuffle_of_lane_outside_mask:
            return {shuffle_of_lane_outside_mask};
        case Bug::unequal_masks:
            return {unequal_masks, 1, 32};
        case Bug::different_operations_meet:
            return {different_operations_meet};
        case Bug::shuffle_orders_no_memory:
            return {exchange_in_warp<false>};
        case Bug::static_array_overrun:
            return {static_array_overrun};
        case Bug::dynamic_memory_overrun:
            return {dynamic_memory_overrun, 1, kThreads, (kThreads - 1) * sizeof(uint32_t)};
        case Bug::no_dynamic_memory_asked_for:
            return {dynamic_memory_overrun};
        case Bug::misaligned_load:
            return {misaligned_load, 1, 32};
        case Bug::misaligned_matrix_row:
            return {misaligned_matrix_row, 1, 32};
        case Bug::misaligned_copy:
            return {misaligned_copy};
        case Bug::matrix_row_in_global_memory:
            return {matrix_row_in_global_memory, 1, 32};
        case Bug::places_out_of_order:
            return {places_out_of_order, 1, 32};
        case Bug::lost_updates:
            return {lost_updates};
        case Bug::blocks_write_the_same:
            return {blocks_write_the_same, 2};
        case Bug::blocks_hand_over_without_fence:
            return {last_block_sums<false>, 5, 32};
        case Bug::poll_for_nothing:
            return {poll_for_nothing};
    }
    return {nullptr};
}

void run_case(const Case& own, const uint32_t* in, uint32_t* out) {
    gpu::launch(own.kernel,
                {.grid = {own.blocks}, .block = {own.threads}, .shared_bytes = own.shared_bytes},
                in, out);
}

}  // namespace

void run(Bug bug, const uint32_t* in, uint32_t* out) { run_case(case_of(bug), in, out); }

void run_blocks_with_fence(const uint32_t* in, uint32_t* out) {
    run_case(Case{last_block_sums<true>, 5, 32}, in, out);
}

void run_lanes_in_order(const uint32_t* in, uint32_t* out) {
    run_case(Case{exchange_in_warp<true>}, in, out);
}

void read_shared_columns(int stride, uint32_t* out) {
    gpu::launch(read_shared_columns_kernel,
                {.grid = {1}, .block = {32}, .shared_bytes = static_cast<size_t>(stride) * 128},
                stride, out);
}

void read_global_with_stride(const uint32_t* in, int stride, uint32_t* out) {
    gpu::launch(read_global_with_stride_kernel, {.grid = {1}, .block = {32}}, in, stride, out);
}

}  // namespace planted
