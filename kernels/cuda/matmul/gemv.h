// What products of at most eight rows share, whose time is that of reading the weights. For .cu
// files only.
//
// Weights are the left operand of a product on tensor cores, 16 columns of y, and the rows of x the
// right one. A block has those 16 columns; each of its warps sums parts of k of its own, and at
// last a thread for each value of y adds what the warps have, in the order of k or of the warps.
// First quantized values or values are read before the work before is waited for: nothing else
// writes weights.
#pragma once

#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/matmul/matmul_selection.h"
#include "kernels/cuda/matmul/matmul_tiles.h"

namespace nvllm::cuda {

struct GemvTile {
    static constexpr int kMaxTokens = kMaxGemvRows;
    static constexpr int kColumns = 16;
    static constexpr int kTokenStride = 20;  // four tokens and eight columns in different banks
    static constexpr int kPartValues = kMaxTokens * kTokenStride;

    // The place in a part of what a thread adds, [token][column].
    static __device__ __forceinline__ int place(int token, int column) {
        return token * kTokenStride + column;
    }

    // Keeps a warp's sums, of columns lane / 4 and lane / 4 + 8 and tokens 2 * (lane % 4) and the
    // next, as a part.
    template <typename Sum>
    static __device__ __forceinline__ void keep(const Sum (&sums)[4], Sum* part) {
        const int column = gpu::lane_id() >> 2;
        const int token = 2 * (gpu::lane_id() & 3);
#pragma unroll
        for (int i = 0; i < 4; ++i) part[place(token + (i & 1), column + 8 * (i >> 1))] = sums[i];
    }

    // The value of y that this thread finishes; beyond the last token: none.
    static __device__ __forceinline__ int own_token() {
        return static_cast<int>(threadIdx.x) / kColumns;
    }
    static __device__ __forceinline__ int own_column() {
        return static_cast<int>(threadIdx.x) % kColumns;
    }
};

// REQUIRES: can_gemv().
void launch_gemv(const Context& context, const MatmulCall& call, DType compute_type);

}  // namespace nvllm::cuda
