// Kernels over the tensor-core instructions.
#include "kernels/cuda/gpu.h"
#include "tests/kernels/cuda/wrapper_kernels.h"

namespace wrappers {

namespace gpu = nvllm::gpu;

namespace {

constexpr int kWords = 4;  // of a row of eight 16-bit elements

template <int right_words, typename Sum, typename Multiply>
__device__ __forceinline__ void multiply_lane(Sum* d, const uint32_t* a, const uint32_t* b,
                                              Multiply multiply) {
    const int lane = gpu::lane_id();
    Sum sums[4];
    uint32_t left[4];
    uint32_t right[right_words];
    for (int i = 0; i < 4; ++i) sums[i] = d[lane * 4 + i];
    for (int i = 0; i < 4; ++i) left[i] = a[lane * 4 + i];
    for (int i = 0; i < right_words; ++i) right[i] = b[lane * right_words + i];
    multiply(sums, left, right);
    for (int i = 0; i < 4; ++i) d[lane * 4 + i] = sums[i];
}

struct Multiply16 {
    template <typename T>
    struct Of {
        __device__ void operator()(float (&d)[4], const uint32_t (&a)[4],
                                   const uint32_t (&b)[2]) const {
            gpu::mma_m16n8k16<T>(d, a, b);
        }
    };
};

template <typename T>
__global__ void mma_16_kernel(float* d, const uint32_t* a, const uint32_t* b) {
    multiply_lane<2>(d, a, b, Multiply16::Of<T>{});
}

template <typename T, typename Sum>
struct Multiply8 {
    __device__ void operator()(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) const {
        gpu::mma_m16n8k32<T>(d, a, b);
    }
};

template <typename T, typename Sum>
__global__ void mma_8_kernel(Sum* d, const uint32_t* a, const uint32_t* b) {
    multiply_lane<2>(d, a, b, Multiply8<T, Sum>{});
}

template <typename T, int pair>
__global__ void mma_sparse_kernel(float* d, const uint32_t* a, const uint32_t* b,
                                  const uint32_t* places) {
    multiply_lane<4>(
        d, a, b, [&](float(&sums)[4], const uint32_t(&left)[4], const uint32_t(&right)[4]) {
            gpu::mma_sparse_m16n8k32<T, pair>(sums, left, right, places[gpu::lane_id()]);
        });
}

template <MatrixLoad load>
__global__ void load_matrices_kernel(const uint32_t* rows, uint32_t* out) {
    GPU_SHARED(uint4, tile, [kLanes]);
    const int lane = gpu::lane_id();
    gpu::store16(&tile[lane], gpu::load16(rows + lane * kWords));
    __syncthreads();
    uint32_t four[4] = {};
    uint32_t two[2] = {};
    if constexpr (load == MatrixLoad::x4) gpu::ldmatrix_x4(four, &tile[lane]);
    if constexpr (load == MatrixLoad::x4_transposed) gpu::ldmatrix_x4_transposed(four, &tile[lane]);
    if constexpr (load == MatrixLoad::x2) gpu::ldmatrix_x2(two, &tile[lane]);
    if constexpr (load == MatrixLoad::x2_transposed) gpu::ldmatrix_x2_transposed(two, &tile[lane]);
    for (int i = 0; i < 4; ++i) out[lane * 4 + i] = four[i];
    if constexpr (load == MatrixLoad::x2 || load == MatrixLoad::x2_transposed) {
        for (int i = 0; i < 2; ++i) out[lane * 4 + i] = two[i];
    }
}

__global__ void store_matrices_kernel(const uint32_t* registers, uint32_t* rows) {
    GPU_SHARED(uint4, tile, [kLanes]);
    const int lane = gpu::lane_id();
    uint32_t own[4];
    for (int i = 0; i < 4; ++i) own[i] = registers[lane * 4 + i];
    gpu::stmatrix_x4(&tile[lane], own);
    __syncthreads();
    gpu::store16(rows + lane * kWords, gpu::load16(&tile[lane]));
}

gpu::Launch one_warp() { return {.grid = {1}, .block = {kLanes}}; }

template <typename T>
void mma_sparse(int pair, float* d, const uint32_t* a, const uint32_t* b, const uint32_t* places) {
    gpu::launch(pair == 0 ? mma_sparse_kernel<T, 0> : mma_sparse_kernel<T, 1>, one_warp(), d, a, b,
                places);
}

}  // namespace

void mma_bf16(float* d, const uint32_t* a, const uint32_t* b) {
    gpu::launch(mma_16_kernel<__nv_bfloat16>, one_warp(), d, a, b);
}
void mma_f16(float* d, const uint32_t* a, const uint32_t* b) {
    gpu::launch(mma_16_kernel<__half>, one_warp(), d, a, b);
}
void mma_e4m3(float* d, const uint32_t* a, const uint32_t* b) {
    gpu::launch(mma_8_kernel<__nv_fp8_e4m3, float>, one_warp(), d, a, b);
}
void mma_i8(int* d, const uint32_t* a, const uint32_t* b) {
    gpu::launch(mma_8_kernel<int8_t, int>, one_warp(), d, a, b);
}

void mma_sparse_bf16(int pair, float* d, const uint32_t* a, const uint32_t* b,
                     const uint32_t* places) {
    mma_sparse<__nv_bfloat16>(pair, d, a, b, places);
}
void mma_sparse_f16(int pair, float* d, const uint32_t* a, const uint32_t* b,
                    const uint32_t* places) {
    mma_sparse<__half>(pair, d, a, b, places);
}

void load_matrices(MatrixLoad load, const uint16_t* rows, uint32_t* out) {
    const auto* words = reinterpret_cast<const uint32_t*>(rows);
    switch (load) {
        case MatrixLoad::x4:
            return gpu::launch(load_matrices_kernel<MatrixLoad::x4>, one_warp(), words, out);
        case MatrixLoad::x4_transposed:
            return gpu::launch(load_matrices_kernel<MatrixLoad::x4_transposed>, one_warp(), words,
                               out);
        case MatrixLoad::x2:
            return gpu::launch(load_matrices_kernel<MatrixLoad::x2>, one_warp(), words, out);
        case MatrixLoad::x2_transposed:
            return gpu::launch(load_matrices_kernel<MatrixLoad::x2_transposed>, one_warp(), words,
                               out);
    }
}

void store_matrices(const uint32_t* registers, uint16_t* rows) {
    gpu::launch(store_matrices_kernel, one_warp(), registers, reinterpret_cast<uint32_t*>(rows));
}

}  // namespace wrappers
