// Products of at most eight rows with quantized weights.
//
// The four warps of a block share its 16 columns by chunks of k: one or more units that are summed
// together, or one unit of several groups. Each sum is a part in shared memory (640 bytes, and 128
// for scales and zero points); a thread for each value of y takes the parts in the order of k, so
// its bits are those of the kernels for more rows. Parts of some rounds of all warps are a window
// (24 KiB). Quantized values are read once, four units of a warp under way; x and scales once a
// block. Blocks are small, so that four of a multiprocessor wait for different things.
#include <algorithm>
#include <type_traits>

#include "kernels/cuda/matmul/gemv.h"
#include "kernels/cuda/quantized/quantized_tiles.h"

namespace nvllm::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kMaxParts = 32;  // of a window

// How a product is shared by warps, as plain data.
struct Sharing {
    int units_per_chunk = 1;
    int parts_per_chunk = 1;  // above 1: of a chunk of one unit
    int part_depth = 0;       // k of a part
    int parts_per_scale = 1;  // whose sums, exact ones, are added before they are scaled
    int parts_per_group = 1;
    int rounds = 0;  // of all warps; a chunk of each
    int rounds_per_window = 0;

    __host__ __device__ int parts_per_window() const {
        return rounds_per_window * kWarps * parts_per_chunk;
    }
};

template <typename T, ops::WeightFormat code>
struct QuantizedGemv : GemvTile {
    static constexpr int kDepth = unit_depth(code);
    static constexpr int kStep = kMmaDepth<T>;
    static constexpr int kAhead = 4;
    using Sum = std::conditional_t<sizeof(T) == 1, int, float>;
    using Unit = uint32_t[2][4];  // quantized values of two tiles of columns

    // What a window has in shared memory; scales and zero points [part][column].
    struct Window {
        Sum* parts;
        float* scales;
        int* zero_points;

        __device__ __forceinline__ Window(unsigned char* memory, int count)
            : parts(reinterpret_cast<Sum*>(memory)),
              scales(reinterpret_cast<float*>(parts + count * kPartValues)),
              zero_points(reinterpret_cast<int*>(scales + count * kColumns)) {}
        static constexpr size_t kPartBytes =
            sizeof(Sum) * kPartValues + (sizeof(float) + sizeof(int)) * kColumns;
    };

    // A warp's way through its units.
    struct Walk {
        int chunk = gpu::warp_id();
        int within = 0;

        __device__ __forceinline__ int unit(const Sharing& sharing) const {
            return chunk * sharing.units_per_chunk + within;
        }
        __device__ __forceinline__ void pass(const Sharing& sharing) {
            if (++within < sharing.units_per_chunk) return;
            within = 0;
            chunk += kWarps;
        }
    };

    static __device__ __forceinline__ int first_tile() {
        return static_cast<int>(blockIdx.x) * (kColumns / kColumnTile);
    }

    // Where this lane's quantized values of the block's two tiles begin.
    struct Codes {
        const unsigned char* tiles[2];

        __device__ __forceinline__ explicit Codes(const QuantizedCall& call) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                tiles[j] = call.codes<code>(first_tile() + j, 0) + gpu::lane_id() * kChunkBytes;
            }
        }
        __device__ __forceinline__ void load(int unit, int num_units, Unit& words) const {
            if (unit >= num_units) return;
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const uint4 chunk = gpu::load_streaming16(tiles[j] + int64_t{unit} * kUnitBytes);
                words[j][0] = chunk.x;
                words[j][1] = chunk.y;
                words[j][2] = chunk.z;
                words[j][3] = chunk.w;
            }
        }
    };

    // Scales and zero points of the window whose first part is number `before`; a barrier behind.
    static __device__ __forceinline__ void load_scales(const QuantizedCall& call,
                                                       const Sharing& sharing, int before,
                                                       const Window& window) {
        if (call.scale_type == DType::f32) {
            load_scales<float>(call, sharing, before, window);
        } else if (call.scale_type == DType::bf16) {
            load_scales<__nv_bfloat16>(call, sharing, before, window);
        } else {
            load_scales<__half>(call, sharing, before, window);
        }
    }

    // All that a thread loads is under way before any of it is waited for.
    template <typename S>
    static __device__ __forceinline__ void load_scales(const QuantizedCall& call,
                                                       const Sharing& sharing, int before,
                                                       const Window& window) {
        constexpr int kPerThread = kMaxParts * kColumns / kThreads;
        const auto* const scales = reinterpret_cast<const S*>(call.packed + call.parts.scales);
        const int64_t first_column = int64_t{first_tile()} * kColumnTile;
        const int count = sharing.parts_per_window() * kColumns;
        S loaded[kPerThread];
        int points[kPerThread] = {};
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
            const int index = i * kThreads + static_cast<int>(threadIdx.x);
            const int64_t column = first_column + index % kColumns;
            const int part = before + index / kColumns;
            loaded[i] = gpu::from_float<S>(0.0f);
            if (index >= count || column >= call.parts.columns) continue;
            if (part * sharing.part_depth >= call.product.in) continue;
            const int64_t group =
                sharing.parts_per_group == 1 ? part : part / sharing.parts_per_group;
            loaded[i] = scales[group * call.parts.columns + column];
            points[i] = call.zero_point(group, column);
        }
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
            const int index = i * kThreads + static_cast<int>(threadIdx.x);
            if (index >= count) continue;
            window.scales[index] = gpu::to_float(loaded[i]);
            if (call.has_zero_points) window.zero_points[index] = points[i];
        }
        if (call.has_zero_points) __syncthreads();
    }

    // `part`: of the window, the first of the unit's chunk. Sums that end with the unit's last k
    // are the caller's.
    static __device__ __forceinline__ void multiply(const QuantizedCall& call,
                                                    const Sharing& sharing, const Window& window,
                                                    int part, int unit, const Unit& words,
                                                    Sum (&sums)[4]) {
        const int lane = gpu::lane_id();
        const int token = lane >> 2;
        const auto* const x =
            static_cast<const unsigned char*>(call.x) +
            (token * call.x_stride + unit * kDepth) * static_cast<int64_t>(sizeof(T)) +
            4 * (lane & 3);
        constexpr int kSteps = kDepth / kStep;
        uint32_t rows[kSteps][2];
#pragma unroll
        for (int i = 0; i < 2 * kSteps; ++i) {
            // Sixteen bytes of a row exist as a whole or not at all.
            const bool exists =
                token < call.product.tokens && unit * kDepth + i * (kStep / 2) < call.product.in;
            rows[i / 2][i % 2] = exists ? gpu::load4(x + 16 * i) : 0;
        }
        int zero_points[2];
        const auto begin_part = [&](int number) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                zero_points[j] = call.has_zero_points
                                     ? window.zero_points[number * kColumns + (lane >> 2) + 8 * j]
                                     : 0;
            }
        };
        const auto multiply_step = [&](int step) {
            uint32_t low[2];
            uint32_t high[2];
            Dequantize<T, code>::fragment(words[0], step, zero_points[0], low);
            Dequantize<T, code>::fragment(words[1], step, zero_points[1], high);
            const uint32_t weights[4] = {low[0], high[0], low[1], high[1]};
            multiply_fragments<T>(sums, weights, rows[step]);
        };
        begin_part(part);
        if (sharing.parts_per_chunk == 1) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) multiply_step(step);
            return;
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            multiply_step(step);
            if (step + 1 == kSteps || (step + 1) * kStep % sharing.part_depth != 0) continue;
            end_part(window, part, sums);
            begin_part(++part);
        }
    }

    static __device__ __forceinline__ void end_part(const Window& window, int part,
                                                    Sum (&sums)[4]) {
        keep(sums, window.parts + part * kPartValues);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] = 0;
    }

    // What a thread has of its value of y.
    struct Total {
        float total = 0.0f;
        float scale = 0.0f;
        Sum sum = 0;
        int parts = 0;  // in the sum

        __device__ __forceinline__ void add_sum() {
            total = gpu::fma(static_cast<float>(sum), scale, total);
            sum = 0;
            parts = 0;
        }
        // Adds `count` parts of a window.
        __device__ __forceinline__ void add(const Sharing& sharing, const Window& window,
                                            int count) {
#pragma unroll 4
            for (int part = 0; part < count; ++part) {
                sum += window.parts[part * kPartValues + place(own_token(), own_column())];
                scale = window.scales[part * kColumns + own_column()];
                if (++parts == sharing.parts_per_scale) add_sum();
            }
        }
    };

    static __device__ void run(const QuantizedCall& call, const Sharing& sharing,
                               unsigned char* memory) {
        const Window window(memory, sharing.parts_per_window());
        const auto num_units = static_cast<int>(call.parts.units);
        const Codes codes(call);
        Walk loaded;
        Walk at;
        Unit ahead[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            codes.load(loaded.unit(sharing), num_units, ahead[i]);
            loaded.pass(sharing);
        }
        load_scales(call, sharing, 0, window);
        gpu::wait_for_work_before();
        const int parts_in_all = (call.product.in + sharing.part_depth - 1) / sharing.part_depth;
        const bool has_value = own_token() < call.product.tokens;
        Total total;
        Sum sums[4] = {};
        int round = 0;
        int first_round = 0;  // of the window
        int before = 0;       // parts before the window
        for (int first = 0; first < sharing.rounds * sharing.units_per_chunk; first += kAhead) {
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                if (round == sharing.rounds) break;
                const int unit = at.unit(sharing);
                const int part = (at.chunk - first_round * kWarps) * sharing.parts_per_chunk;
                if (unit < num_units) {
                    multiply(call, sharing, window, part, unit, ahead[i], sums);
                    codes.load(loaded.unit(sharing), num_units, ahead[i]);
                }
                loaded.pass(sharing);
                at.pass(sharing);
                if (at.within != 0) continue;
                end_part(window, part + sharing.parts_per_chunk - 1, sums);
                ++round;
                if (round < sharing.rounds && round < first_round + sharing.rounds_per_window) {
                    continue;
                }
                __syncthreads();
                const int in_window = sharing.parts_per_window();
                const int left = parts_in_all - before;
                if (has_value) total.add(sharing, window, left < in_window ? left : in_window);
                if (round == sharing.rounds) break;
                __syncthreads();
                first_round = round;
                before += in_window;
                load_scales(call, sharing, before, window);
            }
        }
        if (!has_value) return;
        if (total.parts > 0) total.add_sum();
        const int column = static_cast<int>(blockIdx.x) * kColumns + own_column();
        write_output(call.product, call.product.tokens, own_token(), column,
                     call.finished(own_token(), total.total));
    }
};

template <typename T, ops::WeightFormat code>
__global__ void __launch_bounds__(kThreads, 4)
    gemv_quantized_kernel(QuantizedCall call, Sharing sharing) {
    GPU_DYNAMIC_SHARED(unsigned char, memory);
    QuantizedGemv<T, code>::run(call, sharing, memory);
}

// units_per_chunk of 0: warps cannot share the sums.
template <typename T, ops::WeightFormat code>
Sharing share(const QuantizedCall& call) {
    using Product = QuantizedGemv<T, code>;
    constexpr bool kExact = std::is_same_v<typename Product::Sum, int>;
    constexpr int kDepth = Product::kDepth;
    const int in = call.product.in;
    const int sum_depth = call.sum_depth;
    Sharing sharing;
    if (kDepth % sum_depth == 0 && sum_depth % Product::kStep == 0) {
        sharing.parts_per_chunk = kDepth / sum_depth;
        sharing.part_depth = sum_depth;
    } else if (sum_depth % kDepth != 0 && sum_depth < in) {
        sharing.units_per_chunk = 0;
        return sharing;
    } else if (kExact && sum_depth >= in) {
        // Sums without an order: each warp has one.
        sharing.units_per_chunk = static_cast<int>(blocks_for(call.parts.units, kWarps));
        sharing.part_depth = sharing.units_per_chunk * kDepth;
        sharing.parts_per_scale = kWarps;
    } else if (kExact) {
        sharing.part_depth = kDepth;
        sharing.parts_per_scale = static_cast<int>(blocks_for(sum_depth, kDepth));
    } else {
        sharing.units_per_chunk = static_cast<int>(blocks_for(sum_depth, kDepth));
        sharing.part_depth = sharing.units_per_chunk * kDepth;
    }
    sharing.parts_per_group =
        call.group_size >= in ? INT32_MAX : call.group_size / sharing.part_depth;
    const auto chunks = blocks_for(call.parts.units, sharing.units_per_chunk);
    sharing.rounds = static_cast<int>(blocks_for(chunks, kWarps));
    const int most = kMaxParts / (kWarps * sharing.parts_per_chunk);
    sharing.rounds_per_window = std::min(most, sharing.rounds);
    return sharing;
}

// Calls `function` with the element type of x and the code of weights, where there is a kernel.
template <typename Function>
void with_operands(ops::WeightFormat code, DType operand, Function&& function) {
    with_dense_format(code, [&](auto known) {
        constexpr ops::WeightFormat kCode = decltype(known)::kValue;
        if (operand == DType::bf16) {
            function.template operator()<__nv_bfloat16, kCode>();
        } else if (operand == DType::f16) {
            function.template operator()<__half, kCode>();
        } else if constexpr (kCode == ops::WeightFormat::int4 || kCode == ops::WeightFormat::int8) {
            // Of weights of one byte only integers are operands without a conversion.
            function.template operator()<int8_t, kCode>();
        }
    });
}

}  // namespace

bool can_gemv_quantized(const QuantizedCall& call, ops::WeightFormat code, DType operand) {
    if (call.product.tokens > GemvTile::kMaxTokens || call.x_group_size > 0) return false;
    bool can = false;
    with_operands(code, operand, [&]<typename T, ops::WeightFormat kCode>() {
        can = share<T, kCode>(call).units_per_chunk > 0;
    });
    return can;
}

void launch_gemv_quantized(const Context& context, const QuantizedCall& call,
                           ops::WeightFormat code, DType operand) {
    with_operands(code, operand, [&]<typename T, ops::WeightFormat kCode>() {
        const Sharing sharing = share<T, kCode>(call);
        const size_t bytes = static_cast<size_t>(sharing.parts_per_window()) *
                             QuantizedGemv<T, kCode>::Window::kPartBytes;
        gpu::launch(gemv_quantized_kernel<T, kCode>,
                    gpu::Launch{.grid = {blocks_for(call.product.out, GemvTile::kColumns)},
                                .block = {kThreads},
                                .shared_bytes = bytes,
                                .stream = context.stream,
                                .overlaps = true},
                    call, sharing);
    });
}

}  // namespace nvllm::cuda
