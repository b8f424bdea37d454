// Matmuls with quantized weights on tensor cores: quantized values are dequantized in registers to
// x's type, bfloat16 or float16, and summed in float32; or both factors are integers of one byte,
// whose sums are exact.
//
// Grid: [columns, tokens] in tiles of 64 x 64 with four warps, or 32 columns x 16 tokens for at
// most 16. A warp has its own columns: it reads their quantized values straight from global memory
// into registers, 512 bytes at a time and several units ahead of their use, each once for the
// tokens of a tile. x goes through shared memory (3 to 48 KiB).
#include <type_traits>

#include "kernels/cuda/quantized/quantized_tiles.h"

namespace nvllm::cuda {
namespace {

template <typename T, ops::WeightFormat code, int token_tiles, int column_tiles, int warps,
          int units_ahead>
struct QuantizedMatmulTile {
    static constexpr int kThreads = warps * 32;
    static constexpr int kTokens = token_tiles * 16;
    static constexpr int kColumns = warps * column_tiles * kColumnTile;
    static constexpr int kDepth = unit_depth(code);
    static constexpr int kStep = kMmaDepth<T>;
    using Stages = RowStages<T, kTokens, kDepth, kThreads>;
    static constexpr size_t kSharedBytes = Stages::kBytes;

    template <typename Number>
    using Tile = Number[token_tiles][column_tiles][4];
    using Sums = Tile<std::conditional_t<sizeof(T) == 1, int, float>>;
    using Totals = Tile<float>;
    using Units = uint32_t[column_tiles][4];

    // This lane's quantized values of a unit.
    static __device__ __forceinline__ void load_unit(const QuantizedCall& call, int first_tile,
                                                     int unit, Units& words) {
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            const uint4 chunk = gpu::load_streaming16(call.codes<code>(first_tile + j, unit) +
                                                      gpu::lane_id() * kChunkBytes);
            words[j][0] = chunk.x;
            words[j][1] = chunk.y;
            words[j][2] = chunk.z;
            words[j][3] = chunk.w;
        }
    }

    static __device__ __forceinline__ void multiply_step(const T* stage, const Units& words,
                                                         int step,
                                                         const int (&zero_points)[column_tiles],
                                                         Sums& sums) {
        const int lane = gpu::lane_id();
        uint32_t a[token_tiles][4];
#pragma unroll
        for (int i = 0; i < token_tiles; ++i) {
            gpu::ldmatrix_x4(
                a[i], stage + Stages::swizzled(16 * i + (lane & 15), 2 * step + (lane >> 4)));
        }
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
            uint32_t b[2];
            Dequantize<T, code>::fragment(words[j], step, zero_points[j], b);
#pragma unroll
            for (int i = 0; i < token_tiles; ++i) multiply_fragments<T>(sums[i][j], a[i], b);
        }
    }

    // What a lane has of the group of weights that is being summed, read when the group begins: the
    // sums need it as late as its end.
    struct Group {
        int zero_points[column_tiles];
        float scales[column_tiles][2];

        __device__ __forceinline__ void load(const QuantizedCall& call, int first_tile, int group) {
            const int lane = gpu::lane_id();
#pragma unroll
            for (int j = 0; j < column_tiles; ++j) {
                const int64_t first = (first_tile + j) * kColumnTile;
                const bool exists = first < call.parts.columns;
                zero_points[j] = exists ? call.zero_point(group, first + (lane >> 2)) : 0;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    scales[j][i] = exists ? call.scale(group, first + 2 * (lane & 3) + i) : 0.0f;
                }
            }
        }
    };

    // The sums of a group join the totals and begin anew.
    static __device__ __forceinline__ void fold(const QuantizedCall& call, int first_token,
                                                int x_group, const Group& group, Sums& sums,
                                                Totals& totals) {
#pragma unroll
        for (int i = 0; i < token_tiles; ++i) {
            const int token = first_token + 16 * i + (gpu::lane_id() >> 2);
            const float x_scales[2] = {call.x_group_scale(token, x_group),
                                       call.x_group_scale(token + 8, x_group)};
#pragma unroll
            for (int j = 0; j < column_tiles; ++j) {
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    const float scale = group.scales[j][v & 1] * x_scales[v >> 1];
                    const auto sum = static_cast<float>(sums[i][j][v]);
                    totals[i][j][v] = gpu::fma(sum, scale, totals[i][j][v]);
                    sums[i][j][v] = 0;
                }
            }
        }
    }

    static __device__ __forceinline__ void write(const QuantizedCall& call, int first_token,
                                                 int first_tile, const Totals& totals) {
        const int lane = gpu::lane_id();
#pragma unroll
        for (int i = 0; i < token_tiles; ++i) {
#pragma unroll
            for (int j = 0; j < column_tiles; ++j) {
                const int column = (first_tile + j) * kColumnTile + 2 * (lane & 3);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int token = first_token + 16 * i + (lane >> 2) + 8 * half;
                    write_pair(call.product, call.product.tokens, token, column,
                               call.finished(token, totals[i][j][2 * half]),
                               call.finished(token, totals[i][j][2 * half + 1]));
                }
            }
        }
    }

    static __device__ void run(const QuantizedCall& call, T* memory) {
        const int first_token = static_cast<int>(blockIdx.y) * kTokens;
        const int first_tile =
            (static_cast<int>(blockIdx.x) * warps + gpu::warp_id()) * column_tiles;
        Sums sums = {};
        Totals totals = {};
        Groups groups(call);
        Group group;
        group.load(call, first_tile, 0);
        const auto load = [&](int unit, Units& words) { load_unit(call, first_tile, unit, words); };
        run_units<Stages, Units, units_ahead>(
            call, first_token, memory, load, [&](int unit, const T* stage, const Units& words) {
                multiply_unit<kDepth, kStep>(
                    call, unit, groups,
                    [&](int step) { multiply_step(stage, words, step, group.zero_points, sums); },
                    [&] { fold(call, first_token, groups.x, group, sums, totals); },
                    [&] { group.load(call, first_tile, groups.weights); });
            });
        write(call, first_token, first_tile, totals);
    }
};

template <typename T, ops::WeightFormat code, int token_tiles, int column_tiles, int warps,
          int units_ahead>
__global__ void __launch_bounds__(warps * 32, token_tiles == 1 ? 5 : kAnyOccupancy)
    matmul_quantized_kernel(QuantizedCall call) {
    gpu::wait_for_work_before();
    GPU_DYNAMIC_SHARED(T, memory);
    QuantizedMatmulTile<T, code, token_tiles, column_tiles, warps, units_ahead>::run(call, memory);
}

template <typename T, ops::WeightFormat code, int token_tiles, int column_tiles, int warps,
          int units_ahead>
void launch_matmul(const Context& context, const QuantizedCall& call) {
    launch_tiles<QuantizedMatmulTile<T, code, token_tiles, column_tiles, warps, units_ahead>>(
        context, matmul_quantized_kernel<T, code, token_tiles, column_tiles, warps, units_ahead>,
        call);
}

// Few tokens: memory is the limit, and many small blocks keep more bytes under way. Many: each
// dequantized value serves 64 tokens.
template <typename T, ops::WeightFormat code>
void launch_matmul(const Context& context, const QuantizedCall& call) {
    if (call.product.tokens <= 16) {
        launch_matmul<T, code, 1, 1, 4, 4>(context, call);
    } else {
        launch_matmul<T, code, 4, 2, 4, 2>(context, call);
    }
}

template <typename T>
void launch_matmul(const Context& context, const QuantizedCall& call, ops::WeightFormat code) {
    with_dense_format(
        code, [&](auto known) { launch_matmul<T, decltype(known)::kValue>(context, call); });
}

}  // namespace

void launch_gemm_quantized_tensor_cores(const Context& context, const QuantizedCall& call,
                                        ops::WeightFormat code, DType compute_type) {
    if (compute_type == DType::bf16) {
        launch_matmul<__nv_bfloat16>(context, call, code);
    } else {
        launch_matmul<__half>(context, call, code);
    }
}

void launch_gemm_quantized_integers(const Context& context, const QuantizedCall& call,
                                    ops::WeightFormat code) {
    if (code == ops::WeightFormat::int4) {
        launch_matmul<int8_t, ops::WeightFormat::int4>(context, call);
    } else {
        launch_matmul<int8_t, ops::WeightFormat::int8>(context, call);
    }
}

}  // namespace nvllm::cuda
