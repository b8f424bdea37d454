// Products with weights of which two of each four neighbours are kept: bfloat16 and float16 by x of
// the same type, float8 by either, on sparse tensor cores, which take x's values by their places;
// by x of float32 in float32.
//
// On tensor cores, grid: [columns, tokens] in tiles of 64 x 64 with four warps, or 32 columns x 16
// tokens with two for at most 16. A warp has 16 columns, the rows of the left operand: it reads
// what is kept straight from global memory into registers, units ahead of its use. x is the right
// operand and goes through shared memory (6 or 24 KiB). In float32 a warp has 16 columns and up to
// four tokens, eight warps a block, without shared memory; a column is four lanes' work, whose
// totals are added last. pack_sparse_kernel: a thread for each lane of a unit.

#include "kernels/cuda/quantized/packed_sparse_weights.h"
#include "kernels/cuda/quantized/quantized_tiles.h"

namespace nvllm::cuda {
namespace {

// Packing, as plain data.
struct PackSparseCall {
    const void* kept;
    const uint8_t* places;
    unsigned char* packed;
    int64_t tiles;
    int64_t units;
    int64_t in;
    int64_t out;

    __device__ __forceinline__ bool exists(int64_t column, int64_t four) const {
        return column < out && 4 * four < in;
    }
    // The places of the values kept of the four that begin at k = 4 `four`, in order, as a nibble.
    __device__ __forceinline__ uint32_t places_of(int64_t column, int64_t four) const {
        if (!exists(column, four)) return kNoPlaces;
        const uint32_t bits =
            static_cast<uint32_t>(places[column * ((in + 7) / 8) + four / 2]) >> (4 * (four & 1)) &
            0xfu;
        const uint32_t first = (bits & 1u) != 0 ? 0u : ((bits & 2u) != 0 ? 1u : 2u);
        const uint32_t last = (bits & 8u) != 0 ? 3u : ((bits & 4u) != 0 ? 2u : 1u);
        return first | last << 2;
    }
    template <ops::WeightFormat code>
    __device__ __forceinline__ uint32_t raw(int64_t column, int64_t four, int index) const {
        if (!exists(column, four)) return 0;
        const int64_t at = column * (in / 2) + 2 * four + index;
        if constexpr (kept_bytes(code) == 1) return static_cast<const uint8_t*>(kept)[at];
        return static_cast<const uint16_t*>(kept)[at];
    }
};

template <ops::WeightFormat code>
__global__ void __launch_bounds__(256) pack_sparse_kernel(PackSparseCall call) {
    const int64_t index = int64_t{blockIdx.x} * 256 + threadIdx.x;
    const int64_t number = index / 32;
    if (number >= call.tiles * call.units) return;
    const int lane = static_cast<int>(index % 32);
    const int t = lane & 3;
    const int64_t first_column = number / call.units * kSparseColumnTile + lane / 4;
    const int64_t first_four = number % call.units * (unit_depth(code) / 4);
    SparseUnit<code> unit = {};
    for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 4; ++i) {
            unit.places |= call.places_of(first_column + 8 * half, first_four + 4 * t + i)
                           << (16 * half + 4 * i);
        }
    }
    for (int step = 0; step < unit_depth(code) / kSparseStepDepth; ++step) {
        for (int r = 0; r < 4; ++r) {
            const int64_t four = first_four + 8 * step + t + 4 * (r / 2);
            for (int i = 0; i < 2; ++i) {
                unit.set_raw(step, r, i, call.raw<code>(first_column + 8 * (r & 1), four, i));
            }
        }
    }
    unit.store(call.packed + number * unit_bytes(code), lane);
}

template <typename T, ops::WeightFormat code, int token_tiles, int warps, int units_ahead>
struct SparseMatmulTile {
    static constexpr int kThreads = warps * 32;
    static constexpr int kTokens = token_tiles * 8;
    static constexpr int kColumns = warps * kSparseColumnTile;
    static constexpr int kDepth = unit_depth(code);
    using Stages = RowStages<T, kTokens, kDepth, kThreads>;
    static constexpr size_t kSharedBytes = Stages::kBytes;

    using Unit = SparseUnit<code>;
    using Sums = float[token_tiles][4];

    template <int step>
    static __device__ __forceinline__ void multiply_step(const T* stage, const Unit& unit,
                                                         Sums& sums) {
        constexpr int kFirstChunk = step * kSparseStepDepth / Stages::kPerChunk;
        const int lane = gpu::lane_id();
        uint32_t a[4];
        unit.template fragment<T>(step, a);
#pragma unroll
        for (int i = 0; i < token_tiles; ++i) {
            uint32_t b[4];
            gpu::ldmatrix_x4(
                b, stage + Stages::swizzled(8 * i + (lane & 7), kFirstChunk + (lane >> 3)));
            gpu::mma_sparse_m16n8k32<T, step>(sums[i], a, b, unit.places);
        }
    }

    // Of value v of a lane's results.
    static __device__ __forceinline__ int token_of(int tile, int v) {
        return 8 * tile + 2 * (gpu::lane_id() & 3) + (v & 1);
    }

    // The sums of a group join the totals and begin anew.
    static __device__ __forceinline__ void fold(const QuantizedCall& call, int first_token,
                                                int column, const Groups& groups, Sums& sums,
                                                Sums& totals) {
        const float scales[2] = {call.scale(groups.weights, column),
                                 call.scale(groups.weights, column + 8)};
#pragma unroll
        for (int i = 0; i < token_tiles; ++i) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                const float scale =
                    scales[v >> 1] * call.x_group_scale(first_token + token_of(i, v), groups.x);
                totals[i][v] = gpu::fma(sums[i][v], scale, totals[i][v]);
                sums[i][v] = 0.0f;
            }
        }
    }

    static __device__ void run(const QuantizedCall& call, T* memory) {
        const int first_token = static_cast<int>(blockIdx.y) * kTokens;
        const int tile = static_cast<int>(blockIdx.x) * warps + gpu::warp_id();
        const int column = tile * kSparseColumnTile + (gpu::lane_id() >> 2);
        const bool exists = column < call.parts.columns;
        Sums sums = {};
        Sums totals = {};
        Groups groups(call);
        const auto load = [&](int number, Unit& unit) {
            unit.load(call.codes<code>(tile, number));
        };
        run_units<Stages, Unit, units_ahead>(
            call, first_token, memory, load, [&](int number, const T* stage, const Unit& unit) {
                multiply_unit<kDepth, kSparseStepDepth>(
                    call, number, groups,
                    [&](int step) {
                        if (step == 0) {
                            multiply_step<0>(stage, unit, sums);
                        } else {
                            multiply_step<1>(stage, unit, sums);
                        }
                    },
                    [&] {
                        if (exists) fold(call, first_token, column, groups, sums, totals);
                    },
                    [] {});
            });
#pragma unroll
        for (int i = 0; i < token_tiles; ++i) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                const int token = first_token + token_of(i, v);
                write_output(call.product, call.product.tokens, token, column + 8 * (v >> 1),
                             call.finished(token, totals[i][v]));
            }
        }
    }
};

template <typename T, ops::WeightFormat code, int token_tiles, int warps, int units_ahead>
__global__ void __launch_bounds__(warps * 32, kAnyOccupancy)
    matmul_sparse_kernel(QuantizedCall call) {
    gpu::wait_for_work_before();
    GPU_DYNAMIC_SHARED(T, memory);
    SparseMatmulTile<T, code, token_tiles, warps, units_ahead>::run(call, memory);
}

template <typename T, ops::WeightFormat code, int token_tiles, int warps, int units_ahead>
void launch_matmul(const Context& context, const QuantizedCall& call) {
    launch_tiles<SparseMatmulTile<T, code, token_tiles, warps, units_ahead>>(
        context, matmul_sparse_kernel<T, code, token_tiles, warps, units_ahead>, call);
}

// Few tokens: memory is the limit. Many: what is read serves 64 tokens.
template <typename T, ops::WeightFormat code>
void launch_on_tensor_cores(const Context& context, const QuantizedCall& call) {
    if (call.product.tokens <= 16) {
        launch_matmul<T, code, 2, 2, 4>(context, call);
    } else {
        launch_matmul<T, code, 8, 4, 2>(context, call);
    }
}

template <ops::WeightFormat code>
struct SparseSimtGemm {
    static constexpr int kWarps = 8;
    static constexpr int kThreads = kWarps * 32;
    static constexpr int kColumns = kWarps * kSparseColumnTile;
    static constexpr int kTokens = 4;
    static constexpr int kDepth = unit_depth(code);
    static constexpr size_t kSharedBytes = 0;

    using Sums = float[2][kTokens];  // of columns l / 4 and l / 4 + 8

    static __device__ __forceinline__ void multiply_step(const QuantizedCall& call, int first_token,
                                                         const SparseUnit<code>& unit, int first_k,
                                                         int step, Sums& sums) {
        const float* const x = static_cast<const float*>(call.x);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const uint32_t places = unit.places_of(step, r);
            const int four = first_k + 4 * (gpu::lane_id() & 3) + 16 * (r / 2);
            if (four >= call.product.in) continue;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int k = four + static_cast<int>(places >> (2 * i) & 3u);
                const float factor = unit.factor(step, r, i);
#pragma unroll
                for (int token = 0; token < kTokens; ++token) {
                    if (first_token + token >= call.product.tokens) continue;
                    float& sum = sums[r & 1][token];
                    sum = gpu::fma(x[(first_token + token) * call.x_stride + k], factor, sum);
                }
            }
        }
    }

    static __device__ __forceinline__ void fold(const QuantizedCall& call, int first_token,
                                                int column, const Groups& groups, Sums& sums,
                                                Sums& totals) {
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float scale = call.scale(groups.weights, column + 8 * row);
#pragma unroll
            for (int token = 0; token < kTokens; ++token) {
                const float both = scale * call.x_group_scale(first_token + token, groups.x);
                totals[row][token] = gpu::fma(sums[row][token], both, totals[row][token]);
                sums[row][token] = 0.0f;
            }
        }
    }

    static __device__ void run(const QuantizedCall& call) {
        const int tile = static_cast<int>(blockIdx.x) * kWarps + gpu::warp_id();
        if (tile * kSparseColumnTile >= call.product.out) return;
        const int lane = gpu::lane_id();
        const int column = tile * kSparseColumnTile + (lane >> 2);
        const int first_token = static_cast<int>(blockIdx.y) * kTokens;
        Sums sums = {};
        Sums totals = {};
        Groups groups(call);
        for (int number = 0; number < static_cast<int>(call.parts.units); ++number) {
            SparseUnit<code> unit;
            unit.load(call.codes<code>(tile, number));
            multiply_unit<kDepth, kSparseStepDepth>(
                call, number, groups,
                [&](int step) {
                    multiply_step(call, first_token, unit,
                                  number * kDepth + step * kSparseStepDepth, step, sums);
                },
                [&] { fold(call, first_token, column, groups, sums, totals); }, [] {});
        }
#pragma unroll
        for (int row = 0; row < 2; ++row) {
#pragma unroll
            for (int token = 0; token < kTokens; ++token) {
                float total = totals[row][token];
                total += gpu::shuffle_xor(total, 1);
                total += gpu::shuffle_xor(total, 2);
                if ((lane & 3) != 0) continue;
                write_output(call.product, call.product.tokens, first_token + token,
                             column + 8 * row, call.finished(first_token + token, total));
            }
        }
    }
};

template <ops::WeightFormat code>
__global__ void __launch_bounds__(SparseSimtGemm<code>::kThreads, kAnyOccupancy)
    gemm_sparse_simt_kernel(QuantizedCall call) {
    gpu::wait_for_work_before();
    SparseSimtGemm<code>::run(call);
}

}  // namespace

void pack_sparse_values(const Context& context, const ops::QuantizedLayout& layout,
                        const ops::UnpackedQuantizedWeight& plain, unsigned char* packed) {
    const PackedQuantized parts = packed_parts(layout);
    PackSparseCall call{};
    call.kept = plain.codes.data;
    call.places = plain.places.as<uint8_t>();
    call.packed = packed;
    call.tiles = parts.columns / kSparseColumnTile;
    call.units = parts.units;
    call.in = layout.in;
    call.out = layout.out;
    with_sparse_format(layout.code, [&](auto code) {
        gpu::launch(pack_sparse_kernel<decltype(code)::kValue>,
                    gpu::Launch{.grid = {blocks_for(call.tiles * call.units * 32, 256)},
                                .block = {256},
                                .stream = context.stream},
                    call);
    });
}

void launch_gemm_sparse(const Context& context, const QuantizedCall& call, ops::WeightFormat code,
                        DType compute_type) {
    with_sparse_format(code, [&](auto known) {
        constexpr ops::WeightFormat kCode = decltype(known)::kValue;
        if (compute_type == DType::f32) {
            return launch_tiles<SparseSimtGemm<kCode>>(context, gemm_sparse_simt_kernel<kCode>,
                                                       call);
        }
        if constexpr (kCode != ops::WeightFormat::sparse_float16) {
            if (compute_type == DType::bf16) {
                return launch_on_tensor_cores<__nv_bfloat16, kCode>(context, call);
            }
        }
        if constexpr (kCode != ops::WeightFormat::sparse_bfloat16) {
            if (compute_type == DType::f16) {
                return launch_on_tensor_cores<__half, kCode>(context, call);
            }
        }
        NVLLM_CHECK(false, "can_multiply_quantized() says which types there are");
    });
}

}  // namespace nvllm::cuda
