// Copies of two-dimensional tiles from global to shared memory by one thread (TMA). For sm_90 and
// later; on older devices a kernel that uses them traps.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/primitives/ptx/transaction_barrier.h"
#include "kernels/cuda/primitives/tile.h"
#include "kernels/error.h"

namespace nvllm::gpu {

// A matrix as the copies want it; a kernel's parameter `const __grid_constant__ TensorMap map`.
struct TensorMap {
    CUtensorMap encoded;
};

// Requires what TiledMatrix says. Throws Error when the driver refuses it or has no tensor maps.
inline TensorMap make_tensor_map(const TiledMatrix& matrix) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000,
                                         cudaEnableDefault, &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess) {
        throw Error(ErrorKind::unavailable, "CUDA: the driver has no cuTensorMapEncodeTiled");
    }
    const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(address);
    const cuuint64_t sizes[2] = {matrix.columns, matrix.rows};
    const cuuint64_t strides[1] = {matrix.row_bytes};
    const cuuint32_t box[2] = {matrix.box_columns, matrix.box_rows};
    const cuuint32_t steps[2] = {1, 1};
    const CUtensorMapSwizzle swizzles[4] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                            CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_32B};
    TensorMap map;
    const CUresult status =
        encode(&map.encoded, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, const_cast<void*>(matrix.data),
               sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzles[static_cast<int>(matrix.swizzle)], CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    NVLLM_CHECK(status == CUDA_SUCCESS, "the driver refuses a tensor map");
    return map;
}

// Starts the copy of the box whose first element is (row, column) to `shared`, aligned to 128
// bytes; its bytes come to `barrier`.
__device__ __forceinline__ void start_tile_copy(void* shared, const TensorMap& map, int row,
                                                int column, TransactionBarrier* barrier) {
    NVLLM_SM90(
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
                     "l"(&map.encoded), "r"(column), "r"(row), "r"(shared_address(barrier))
                     : "memory"));
}

}  // namespace nvllm::gpu
