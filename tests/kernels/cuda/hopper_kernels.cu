// Kernels over transaction barriers, tile copies and products of a warpgroup.
#include "tests/kernels/cuda/hopper_kernels.h"

#include "kernels/cuda/gpu.h"

namespace hopper {

namespace gpu = nvllm::gpu;

namespace {

constexpr int kRows = 64;
constexpr int kDepth = 64;  // of a stage: rows of 128 bytes
constexpr int kStages = 2;
constexpr int kConsumers = 128;
constexpr int kThreads = kConsumers + 32;

template <typename T, int columns>
struct Tiles {
    T a[kStages][kRows][kDepth];
    T b[kStages][columns][kDepth];
};

template <Mistake mistake, typename T, int columns>
__device__ void produce(Tiles<T, columns>* tiles, gpu::TransactionBarrier* full,
                        gpu::TransactionBarrier* empty, const gpu::TensorMap& a,
                        const gpu::TensorMap& b, int num_stages) {
    constexpr int kBytes =
        (kRows + columns) * kDepth * 2 - (mistake == Mistake::fewer_bytes_expected ? 128 : 0);
    for (int i = 0; i < num_stages; ++i) {
        const int stage = i % kStages;
        if (i >= kStages && mistake != Mistake::stage_not_given_back) {
            gpu::wait_barrier(&empty[stage], (i / kStages - 1) % 2);
        }
        gpu::arrive_expecting(&full[stage], kBytes);
        gpu::start_tile_copy(tiles->a[stage], a, static_cast<int>(blockIdx.y) * kRows, i * kDepth,
                             &full[stage]);
        gpu::start_tile_copy(tiles->b[stage], b, static_cast<int>(blockIdx.x) * columns, i * kDepth,
                             &full[stage]);
    }
}

template <Mistake mistake, typename T, int columns>
__device__ void consume(Tiles<T, columns>* tiles, gpu::TransactionBarrier* full,
                        gpu::TransactionBarrier* empty, float (&sums)[columns / 2],
                        int num_stages) {
    for (int i = 0; i < num_stages; ++i) {
        const int stage = i % kStages;
        const int parity = (i / kStages + (mistake == Mistake::wrong_parity)) % 2;
        if (mistake != Mistake::no_wait_for_tiles) gpu::wait_barrier(&full[stage], parity);
        gpu::warpgroup_fence();
        for (int k = 0; k < kDepth; k += 16) {
            const uint64_t a = gpu::matrix_descriptor(gpu::shared_address(&tiles->a[stage][0][k]),
                                                      gpu::Swizzle::bytes128);
            const uint64_t b = gpu::matrix_descriptor(gpu::shared_address(&tiles->b[stage][0][k]),
                                                      gpu::Swizzle::bytes128);
            gpu::warpgroup_multiply<T, columns>(sums, a, b);
        }
        gpu::warpgroup_commit();
        if (mistake == Mistake::accumulators_touched) sums[0] = 0.0f;
        if (mistake != Mistake::no_wait_for_products) gpu::warpgroup_wait<0>();
        if (gpu::lane_id() == 0) gpu::arrive(&empty[stage]);
    }
    gpu::warpgroup_wait<0>();
}

template <Mistake mistake, typename T, int columns>
__global__ void __launch_bounds__(kThreads)
    multiply_kernel(const __grid_constant__ gpu::TensorMap a,
                    const __grid_constant__ gpu::TensorMap b, float* c, int m, int n,
                    int num_stages) {
    using Shared = Tiles<T, columns>;
    GPU_DYNAMIC_SHARED(Shared, tiles);
    GPU_SHARED(gpu::TransactionBarrier, full, [kStages]);
    GPU_SHARED(gpu::TransactionBarrier, empty, [kStages]);
    if (threadIdx.x == 0 && mistake != Mistake::barrier_not_initialised) {
        for (int i = 0; i < kStages; ++i) {
            gpu::init_barrier(&full[i], 1);
            gpu::init_barrier(&empty[i], kConsumers / 32);
        }
    }
    gpu::fence_barriers();
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        if (gpu::lane_id() == 0) produce<mistake>(tiles, full, empty, a, b, num_stages);
        return;
    }
    float sums[columns / 2] = {};
    consume<mistake>(tiles, full, empty, sums, num_stages);
    const int first_row =
        static_cast<int>(blockIdx.y) * kRows + gpu::warp_id() * 16 + gpu::lane_id() / 4;
    const int first_column = static_cast<int>(blockIdx.x) * columns + gpu::lane_id() % 4 * 2;
    for (int i = 0; i < columns / 2; ++i) {
        const int row = first_row + i / 2 % 2 * 8;
        const int column = first_column + i / 4 * 8 + i % 2;
        if (row < m && column < n) c[row * n + column] = sums[i];
    }
}

gpu::TensorMap map_of(const uint16_t* data, int rows, int columns, int box_rows) {
    return gpu::make_tensor_map({.data = data,
                                 .rows = static_cast<uint32_t>(rows),
                                 .columns = static_cast<uint32_t>(columns),
                                 .row_bytes = static_cast<uint64_t>(columns) * 2,
                                 .box_rows = static_cast<uint32_t>(box_rows),
                                 .box_columns = kDepth,
                                 .swizzle = gpu::Swizzle::bytes128});
}

template <Mistake mistake, typename T, int columns>
void launch_multiply(const uint16_t* a, const uint16_t* b, float* c, int m, int n, int k) {
    gpu::launch(multiply_kernel<mistake, T, columns>,
                {.grid = {(n + columns - 1) / columns, (m + kRows - 1) / kRows},
                 .block = {kThreads},
                 .shared_bytes = sizeof(Tiles<T, columns>)},
                map_of(a, m, k, kRows), map_of(b, n, k, columns), c, m, n,
                (k + kDepth - 1) / kDepth);
}

__global__ void copy_tile_kernel(const __grid_constant__ gpu::TensorMap map, int row, int column,
                                 uint16_t* out, int elements) {
    GPU_DYNAMIC_SHARED(uint16_t, tile);
    GPU_SHARED(gpu::TransactionBarrier, full, [1]);
    if (threadIdx.x == 0) gpu::init_barrier(full, 1);
    gpu::fence_barriers();
    __syncthreads();
    if (threadIdx.x == 0) {
        gpu::arrive_expecting(full, static_cast<uint32_t>(elements) * 2);
        gpu::start_tile_copy(tile, map, row, column, full);
    }
    gpu::wait_barrier(full, 0);
    for (int i = static_cast<int>(threadIdx.x); i < elements; i += static_cast<int>(blockDim.x))
        out[i] = tile[i];
}

gpu::Swizzle swizzle_of(int bytes) {
    return bytes == 128  ? gpu::Swizzle::bytes128
           : bytes == 64 ? gpu::Swizzle::bytes64
           : bytes == 32 ? gpu::Swizzle::bytes32
                         : gpu::Swizzle::none;
}

}  // namespace

void multiply(Mistake mistake, const uint16_t* a, const uint16_t* b, float* c, int m, int n,
              int k) {
    using T = __nv_bfloat16;
    switch (mistake) {
        case Mistake::none:
            return launch_multiply<Mistake::none, T, 64>(a, b, c, m, n, k);
        case Mistake::no_wait_for_tiles:
            return launch_multiply<Mistake::no_wait_for_tiles, T, 64>(a, b, c, m, n, k);
        case Mistake::no_wait_for_products:
            return launch_multiply<Mistake::no_wait_for_products, T, 64>(a, b, c, m, n, k);
        case Mistake::stage_not_given_back:
            return launch_multiply<Mistake::stage_not_given_back, T, 64>(a, b, c, m, n, k);
        case Mistake::wrong_parity:
            return launch_multiply<Mistake::wrong_parity, T, 64>(a, b, c, m, n, k);
        case Mistake::fewer_bytes_expected:
            return launch_multiply<Mistake::fewer_bytes_expected, T, 64>(a, b, c, m, n, k);
        case Mistake::barrier_not_initialised:
            return launch_multiply<Mistake::barrier_not_initialised, T, 64>(a, b, c, m, n, k);
        case Mistake::accumulators_touched:
            return launch_multiply<Mistake::accumulators_touched, T, 64>(a, b, c, m, n, k);
    }
}

void multiply_halves(const uint16_t* a, const uint16_t* b, float* c, int m, int n, int k) {
    launch_multiply<Mistake::none, __half, 128>(a, b, c, m, n, k);
}

void copy_tile(int swizzle_bytes, const uint16_t* in, int in_rows, int in_columns, int row,
               int column, uint16_t* out, int rows, int columns) {
    const gpu::TensorMap map =
        gpu::make_tensor_map({.data = in,
                              .rows = static_cast<uint32_t>(in_rows),
                              .columns = static_cast<uint32_t>(in_columns),
                              .row_bytes = static_cast<uint64_t>(in_columns) * 2,
                              .box_rows = static_cast<uint32_t>(rows),
                              .box_columns = static_cast<uint32_t>(columns),
                              .swizzle = swizzle_of(swizzle_bytes)});
    gpu::launch(
        copy_tile_kernel,
        {.grid = {1}, .block = {64}, .shared_bytes = static_cast<size_t>(rows * columns) * 2}, map,
        row, column, out, rows * columns);
}

}  // namespace hopper
