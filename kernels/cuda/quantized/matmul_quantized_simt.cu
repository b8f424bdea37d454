// Products of float32 with quantized weights, in float32.
//
// A warp takes a tile of 8 columns for up to four tokens, eight warps a block, without shared
// memory. A lane multiplies the quantized values that are its own in the packing
// (packed_weights.h), so a column is four lanes' work; their totals are added last. Each code is
// read once for four tokens.
#include "kernels/cuda/quantized/quantized_tiles.h"

namespace nvllm::cuda {
namespace {

template <ops::WeightFormat code>
struct SimtGemm {
    static constexpr int kWarps = 8;
    static constexpr int kThreads = kWarps * 32;
    static constexpr int kColumns = kWarps * kColumnTile;
    static constexpr int kTokens = 4;
    static constexpr int kDepth = unit_depth(code);
    static constexpr size_t kSharedBytes = 0;

    static __device__ __forceinline__ void multiply_step(const QuantizedCall& call, int first_token,
                                                         const uint32_t (&words)[4], int unit,
                                                         int step, int zero_point,
                                                         float (&sums)[kTokens]) {
        const uint32_t raw = quantized_of_step<code>(words, step);
        const float* const x = static_cast<const float*>(call.x);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int k = unit * kDepth + step * kStepDepth + k_of(gpu::lane_id(), i);
            if (k >= call.product.in) continue;
            const float factor = factor_of<code>(raw >> (8 * i) & 0xffu, zero_point);
#pragma unroll
            for (int token = 0; token < kTokens; ++token) {
                if (first_token + token >= call.product.tokens) continue;
                sums[token] =
                    gpu::fma(x[(first_token + token) * call.x_stride + k], factor, sums[token]);
            }
        }
    }

    static __device__ __forceinline__ void fold(const QuantizedCall& call, int first_token,
                                                int column, const Groups& groups,
                                                float (&sums)[kTokens], float (&totals)[kTokens]) {
        const float scale = call.scale(groups.weights, column);
#pragma unroll
        for (int token = 0; token < kTokens; ++token) {
            const float both = scale * call.x_group_scale(first_token + token, groups.x);
            totals[token] = gpu::fma(sums[token], both, totals[token]);
            sums[token] = 0.0f;
        }
    }

    static __device__ void run(const QuantizedCall& call) {
        const int tile = static_cast<int>(blockIdx.x) * kWarps + gpu::warp_id();
        if (tile * kColumnTile >= call.product.out) return;
        const int lane = gpu::lane_id();
        const int column = tile * kColumnTile + (lane >> 2);
        const int first_token = static_cast<int>(blockIdx.y) * kTokens;
        float sums[kTokens] = {};
        float totals[kTokens] = {};
        int zero_point = call.zero_point(0, column);
        Groups groups(call);
        for (int unit = 0; unit < static_cast<int>(call.parts.units); ++unit) {
            const uint4 chunk =
                gpu::load_streaming16(call.codes<code>(tile, unit) + lane * kChunkBytes);
            const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
            multiply_unit<kDepth, kStepDepth>(
                call, unit, groups,
                [&](int step) {
                    multiply_step(call, first_token, words, unit, step, zero_point, sums);
                },
                [&] { fold(call, first_token, column, groups, sums, totals); },
                [&] { zero_point = call.zero_point(groups.weights, column); });
        }
#pragma unroll
        for (int token = 0; token < kTokens; ++token) {
            float total = totals[token];
            total += gpu::shuffle_xor(total, 1);
            total += gpu::shuffle_xor(total, 2);
            if ((lane & 3) != 0) continue;
            write_output(call.product, call.product.tokens, first_token + token, column,
                         call.finished(first_token + token, total));
        }
    }
};

template <ops::WeightFormat code>
__global__ void __launch_bounds__(SimtGemm<code>::kThreads, kAnyOccupancy)
    gemm_quantized_simt_kernel(QuantizedCall call) {
    gpu::wait_for_work_before();
    SimtGemm<code>::run(call);
}

}  // namespace

void launch_gemm_quantized_simt(const Context& context, const QuantizedCall& call,
                                ops::WeightFormat code) {
    with_dense_format(code, [&](auto known) {
        constexpr ops::WeightFormat kCode = decltype(known)::kValue;
        launch_tiles<SimtGemm<kCode>>(context, gemm_quantized_simt_kernel<kCode>, call);
    });
}

}  // namespace nvllm::cuda
