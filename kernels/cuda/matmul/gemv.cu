// Products of at most eight rows with weights of the product's 16-bit type.
//
// A unit is 64 k of 16 columns: a line of 128 bytes of each, four times 16 bytes a lane, of which
// two words and the same of x are the factors of one product of 16 k; which k these are does not
// matter, as long as they are x's too. A warp takes every eighth unit and has four under way
// (64 KiB a block). Shared memory: 5 KiB, what the warps have at the end. Weights are read once,
// 2 bytes each; x once a block.
#include "kernels/cuda/matmul/gemv.h"

namespace nvllm::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;

template <typename T>
struct Gemv : GemvTile {
    static constexpr int kSpanDepth = 32;  // 16 bytes of four lanes
    static constexpr int kSpans = 2;
    static constexpr int kDepth = kSpans * kSpanDepth;
    static constexpr int kAhead = 4;
    using Unit = uint4[kSpans][2];  // of columns lane / 4 and lane / 4 + 8

    static __device__ __forceinline__ int k_of_lane(int unit, int span) {
        return unit * kDepth + span * kSpanDepth + 8 * (gpu::lane_id() & 3);
    }

    // Columns beyond the last: the last, whose sums are not written.
    static __device__ __forceinline__ void load(const MatmulCall& call, int first_column, int unit,
                                                Unit& values) {
        const T* const weight = static_cast<const T*>(call.weight);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int column = first_column + (gpu::lane_id() >> 2) + 8 * half;
            if (column >= call.out) column = call.out - 1;
#pragma unroll
            for (int span = 0; span < kSpans; ++span) {
                const int k = k_of_lane(unit, span);
                values[span][half] = make_uint4(0, 0, 0, 0);
                if (k >= call.in) continue;
                values[span][half] = gpu::load_streaming16(weight + int64_t{column} * call.in + k);
            }
        }
    }

    static __device__ __forceinline__ void multiply(const MatmulCall& call, int unit,
                                                    const Unit& weights, float (&sums)[4]) {
        const int token = gpu::lane_id() >> 2;
        const T* const x = static_cast<const T*>(call.x) + token * call.x_stride;
        uint4 rows[kSpans];
#pragma unroll
        for (int span = 0; span < kSpans; ++span) {
            const int k = k_of_lane(unit, span);
            rows[span] = make_uint4(0, 0, 0, 0);
            if (token < call.tokens && k < call.in) rows[span] = gpu::load16(x + k);
        }
#pragma unroll
        for (int span = 0; span < kSpans; ++span) {
            const uint4 low = weights[span][0];
            const uint4 high = weights[span][1];
            const uint32_t first[4] = {low.x, high.x, low.y, high.y};
            const uint32_t first_rows[2] = {rows[span].x, rows[span].y};
            gpu::mma_m16n8k16<T>(sums, first, first_rows);
            const uint32_t second[4] = {low.z, high.z, low.w, high.w};
            const uint32_t second_rows[2] = {rows[span].z, rows[span].w};
            gpu::mma_m16n8k16<T>(sums, second, second_rows);
        }
    }

    static __device__ void run(const MatmulCall& call, float* parts) {
        const int first_column = static_cast<int>(blockIdx.x) * kColumns;
        const int warp = gpu::warp_id();
        const int num_units = (call.in + kDepth - 1) / kDepth;
        Unit ahead[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) load(call, first_column, warp + i * kWarps, ahead[i]);
        gpu::wait_for_work_before();
        float sums[4] = {};
        for (int first = warp; first < num_units; first += kAhead * kWarps) {
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                const int unit = first + i * kWarps;
                if (unit >= num_units) break;
                multiply(call, unit, ahead[i], sums);
                load(call, first_column, unit + kAhead * kWarps, ahead[i]);
            }
        }
        keep(sums, parts + warp * kPartValues);
        __syncthreads();
        const int token = own_token();
        if (token >= call.tokens) return;
        float total = 0.0f;
#pragma unroll
        for (int i = 0; i < kWarps; ++i) {
            total += parts[i * kPartValues + place(token, own_column())];
        }
        write_output(call, call.tokens, token, first_column + own_column(), total);
    }
};

template <typename T>
__global__ void __launch_bounds__(kThreads, 2) gemv_kernel(MatmulCall call) {
    GPU_SHARED(float, parts, [kWarps * GemvTile::kPartValues]);
    Gemv<T>::run(call, parts);
}

}  // namespace

bool can_gemv(const ConstTensorView& x, const ConstTensorView& weight, DType compute_type) {
    return x.dim(0) <= GemvTile::kMaxTokens && compute_type != DType::f32 &&
           x.dtype == compute_type && weight.dtype == compute_type && row_layout(x).aligned &&
           row_layout(weight).aligned;
}

void launch_gemv(const Context& context, const MatmulCall& call, DType compute_type) {
    const auto launch = [&](auto kernel) {
        gpu::launch(kernel,
                    gpu::Launch{.grid = {blocks_for(call.out, GemvTile::kColumns)},
                                .block = {kThreads},
                                .stream = context.stream,
                                .overlaps = true},
                    call);
    };
    if (compute_type == DType::bf16) {
        launch(gemv_kernel<__nv_bfloat16>);
    } else {
        launch(gemv_kernel<__half>);
    }
}

}  // namespace nvllm::cuda
