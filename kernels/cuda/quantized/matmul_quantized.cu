// Matmuls with quantized weights on the GPU: packing, and rounding of x.
//
// round_rows_kernel: a block of 256 threads a token, its values read once, by runs of 8, and kept
// until the row's scale is known (those of rows beyond 8,192, and of groups, are read twice),
// written once; 128 bytes of shared memory. pack_kernel: a thread for each 16 bytes of packed
// quantized values.
#include "kernels/cuda/quantized/matmul_quantized.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/matmul/matmul_selection.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/quantized/dequantize_gemm.h"
#include "kernels/cuda/quantized/packed_sparse_weights.h"
#include "kernels/cuda/quantized/quantized_tiles.h"
#include "kernels/cuda/quantized/scaled_mm.h"
#include "kernels/error.h"

namespace nvllm::cuda {
namespace {

using ops::ActivationFormat;
using ops::ActivationRounding;

constexpr int kRoundingThreads = 256;
constexpr int kCachedRuns = 4;  // of a row, by each thread
constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr uint32_t kNaNBits = 0x7fc00000u;

// Rows of x on their way to what is multiplied, as plain data.
struct RoundingCall {
    const void* x;
    int64_t x_stride;
    bool x_aligned;          // as a RowLayout is
    const int32_t* columns;  // may be null
    int in;
    int padded_in;
    ActivationRounding rounding;
    int group_size;  // values that share a scale
    void* values;    // [tokens, padded_in]
    float* scales;   // [tokens, scales_stride]; null: none are kept
    int64_t scales_stride;
    bool scales_inside;       // values are multiplied with them; powers of two and E4M3: exactly
    bool are_placed;          // as place_of() has it, not in the order of k
    const float* row_maxima;  // QuantizedWeight::row_maxima; may be null

    __device__ __forceinline__ int place(int k) const { return are_placed ? place_of(k) : k; }

    // What a row's values, where scales are inside, are still to be multiplied with.
    __device__ __forceinline__ float scale_outside() const {
        return rounding.global_scale > 0.0f ? 1.0f / rounding.global_scale : 1.0f;
    }

    template <typename X>
    __device__ __forceinline__ float value(int64_t token, int k) const {
        const int column = columns != nullptr ? columns[k] : k;
        return gpu::to_float(static_cast<const X*>(x)[token * x_stride + column]);
    }
    // Zeros beyond `in`.
    template <typename X>
    __device__ __forceinline__ void load(int64_t token, int k, float (&run)[kRun]) const {
        if (columns == nullptr) {
            load_run(static_cast<const X*>(x) + token * x_stride + k, in - k, x_aligned, run);
            return;
        }
#pragma unroll
        for (int i = 0; i < kRun; ++i) run[i] = k + i < in ? value<X>(token, k + i) : 0.0f;
    }
    // What values are divided by, where `scale` is theirs.
    __device__ __forceinline__ float divisor(float scale) const {
        return rounding.global_scale > 0.0f ? scale / rounding.global_scale : scale;
    }
};

// Ties to even, for magnitudes below 2^22: adding makes the unit the last bit.
__device__ __forceinline__ float to_integer(float x) {
    constexpr float kShift = 0x1.8p23f;
    return (x + kShift) - kShift;
}

__device__ __forceinline__ float to_float8(float x) {
    return gpu::to_float(gpu::from_float<__nv_fp8_e4m3>(x));
}

// E2M1: ties to the even index.
__device__ __forceinline__ float to_float4(float x) {
    const float m = fabsf(x);
    const int index = (m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) +
                      (m >= 3.5f) + (m > 5.0f);
    const float rounded = index < 4 ? 0.5f * static_cast<float>(index)
                                    : (index == 7 ? 6.0f : static_cast<float>(index - 2));
    return x < 0.0f ? -rounded : rounded;
}

__device__ __forceinline__ float clamped(float x, float low, float high) {
    return fminf(fmaxf(x, low), high);
}

__device__ __forceinline__ float round_value(ActivationFormat code, float scaled) {
    switch (code) {
        case ActivationFormat::int8:
            return to_integer(clamped(scaled, -128.0f, 127.0f));
        case ActivationFormat::int4:
            return to_integer(clamped(scaled, -8.0f, 7.0f));
        case ActivationFormat::float8:
            return to_float8(scaled);
        case ActivationFormat::float4:
            return to_float4(scaled);
        default:
            return scaled;
    }
}

__device__ __forceinline__ float half_range(ActivationFormat code) {
    if (code == ActivationFormat::int8) return 127.5f;
    if (code == ActivationFormat::int4) return 7.5f;
    return code == ActivationFormat::float8 ? 448.0f : 6.0f;
}

// The exponent of the largest magnitude, rounded up where its mantissa is 1.75 or more, less that
// of the largest code.
__device__ __forceinline__ float power_of_two(float largest, ActivationFormat code) {
    const uint32_t raw = gpu::float_as_bits(largest) + (1u << 21);
    int exponent = static_cast<int>(raw >> 23 & 0xffu) - (code == ActivationFormat::float4 ? 2 : 8);
    exponent = exponent < 0 ? 0 : (exponent > 254 ? 254 : exponent);
    return exponent == 0 ? 0x1p-127f : gpu::bits_as_float(static_cast<uint32_t>(exponent) << 23);
}

// The bits of |x|, which order as magnitudes do. Infinity comes above all numbers and NaN above
// infinity, so that a maximum of them keeps what is no number; fmaxf() would drop a NaN.
__device__ __forceinline__ uint32_t magnitude_bits(float x) {
    return gpu::float_as_bits(x) & 0x7fffffffu;
}
__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) { return a < b ? b : a; }

// Of a group whose largest value has these magnitude_bits(). A group of zeros has any scale; one
// with a value that is not finite has none (kernels/cpu/quantized/quantize_activations.cc), nor
// have its products.
__device__ __forceinline__ float scale_of(const ActivationRounding& rounding, uint32_t magnitude) {
    if (magnitude >= kInfinityBits) return gpu::bits_as_float(kNaNBits);
    const float largest = gpu::bits_as_float(magnitude);
    if (rounding.scale > 0.0f) return rounding.scale;
    if (rounding.powers_of_two) return power_of_two(largest, rounding.code);
    float scale = largest / half_range(rounding.code);
    if (rounding.global_scale > 0.0f) scale = to_float8(scale * rounding.global_scale);
    return scale > 0.0f ? scale : 1.0f;
}

// What is stored for a value, where `scale` is its scale and `divisor` what that makes of it.
__device__ __forceinline__ float quantized_value(const RoundingCall& call, float value, float scale,
                                                 float divisor) {
    const float code = round_value(call.rounding.code, value / divisor);
    return call.scales_inside ? code * scale : code;
}

template <typename T, typename X>
__device__ __forceinline__ void write_quantized(const RoundingCall& call, int64_t token, int begin,
                                                int end, int first, int step, float scale) {
    const float divisor = call.divisor(scale);
    T* const to = static_cast<T*>(call.values) + token * call.padded_in;
    for (int k = begin + first; k < end; k += step) {
        to[call.place(k)] =
            gpu::from_float<T>(quantized_value(call, call.value<X>(token, k), scale, divisor));
    }
}

// A run of eight; REQUIRES: k < in.
template <typename T>
__device__ __forceinline__ void write_run(const RoundingCall& call, int64_t token, int k,
                                          float scale, float (&run)[kRun]) {
    const float divisor = call.divisor(scale);
#pragma unroll
    for (float& value : run) value = quantized_value(call, value, scale, divisor);
    T* const to = static_cast<T*>(call.values) + token * call.padded_in;
    if constexpr (std::is_same_v<T, int8_t>) {
        if (call.are_placed) {
#pragma unroll
            for (int i = 0; i < kRun; i += 2) {
                const T pair[2] = {gpu::from_float<T>(run[i]), gpu::from_float<T>(run[i + 1])};
                memcpy(to + place_of(k + i), pair, 2);
            }
            return;
        }
    }
    const int left = call.padded_in - k;
    store_run(to + k, left, left >= kRun, run);
}

// Groups of a row, a warp each; the order of the largest magnitude does not matter.
template <typename T, typename X>
__device__ __forceinline__ void round_groups(const RoundingCall& call, int64_t token) {
    const int groups = (call.in + call.group_size - 1) / call.group_size;
    const int warps = static_cast<int>(blockDim.x) / 32;
    for (int group = gpu::warp_id(); group < groups; group += warps) {
        const int begin = group * call.group_size;
        const int end = begin + call.group_size < call.in ? begin + call.group_size : call.in;
        uint32_t largest = 0;
        for (int k = begin + gpu::lane_id(); k < end; k += 32) {
            largest = larger(largest, magnitude_bits(call.value<X>(token, k)));
        }
        const float scale = scale_of(call.rounding, gpu::warp_max(largest));
        write_quantized<T, X>(call, token, begin, end, gpu::lane_id(), 32, scale);
        if (call.scales != nullptr && !call.scales_inside && gpu::lane_id() == 0) {
            call.scales[token * call.scales_stride + group] = scale;
        }
    }
}

template <typename T, typename X>
__device__ __forceinline__ void round_row(const RoundingCall& call, int64_t token,
                                          uint32_t* parts) {
    const auto begin_of = [](int run) {
        return (run * kRoundingThreads + static_cast<int>(threadIdx.x)) * kRun;
    };
    float kept[kCachedRuns][kRun];
    uint32_t largest = 0;
    const auto find_largest = [&](const float(&run)[kRun]) {
#pragma unroll
        for (const float value : run) largest = larger(largest, magnitude_bits(value));
    };
#pragma unroll
    for (int i = 0; i < kCachedRuns; ++i) {
        if (begin_of(i) >= call.in) break;
        call.load<X>(token, begin_of(i), kept[i]);
        find_largest(kept[i]);
    }
    float run[kRun];
    for (int i = kCachedRuns; begin_of(i) < call.in; ++i) {
        call.load<X>(token, begin_of(i), run);
        find_largest(run);
    }
    if (call.row_maxima != nullptr) {
        largest = larger(largest, magnitude_bits(call.row_maxima[token]));
    }
    const float scale = scale_of(call.rounding, gpu::block_max(largest, parts));
#pragma unroll
    for (int i = 0; i < kCachedRuns; ++i) {
        if (begin_of(i) >= call.in) break;
        write_run<T>(call, token, begin_of(i), scale, kept[i]);
    }
    for (int i = kCachedRuns; begin_of(i) < call.in; ++i) {
        call.load<X>(token, begin_of(i), run);
        write_run<T>(call, token, begin_of(i), scale, run);
    }
    if (threadIdx.x == 0) {
        call.scales[token * call.scales_stride] = call.scales_inside ? call.scale_outside() : scale;
    }
}

template <typename T, typename X>
__global__ void __launch_bounds__(kRoundingThreads, kAnyOccupancy)
    round_rows_kernel(RoundingCall call) {
    gpu::wait_for_work_before();
    GPU_SHARED(uint32_t, parts, [32]);
    const int64_t token = blockIdx.x;
    T* const to = static_cast<T*>(call.values) + token * call.padded_in;
    for (int k = call.in + static_cast<int>(threadIdx.x); k < call.padded_in;
         k += kRoundingThreads) {
        to[call.place(k)] = gpu::from_float<T>(0.0f);
    }
    if (call.rounding.code == ActivationFormat::compute_type) {
        write_quantized<T, X>(call, token, 0, call.in, static_cast<int>(threadIdx.x),
                              kRoundingThreads, 1.0f);
    } else if (call.group_size < call.in) {
        round_groups<T, X>(call, token);
        if (call.scales_inside && threadIdx.x == 0) {
            call.scales[token * call.scales_stride] = call.scale_outside();
        }
    } else {
        round_row<T, X>(call, token, parts);
    }
}

// Packing, as plain data.
struct PackCall {
    const int8_t* codes;
    const float* scales;
    const int8_t* zero_points;
    unsigned char* packed;
    PackedQuantized parts;
    int64_t in;
    int64_t out;
    bool one_row_of_scales;
    DType scale_type;

    // As it is stored; what pads a matrix stands for 0.
    template <ops::WeightFormat code>
    __device__ __forceinline__ uint32_t raw(int64_t column, int64_t k) const {
        const bool exists = column < out && k < in;
        const int value = exists ? codes[column * in + k] : 0;
        if (code == ops::WeightFormat::int4) return static_cast<uint32_t>(value + 8) & 0xfu;
        if (code == ops::WeightFormat::int8) return static_cast<uint32_t>(value + 128) & 0xffu;
        return static_cast<uint32_t>(value) & (code == ops::WeightFormat::float4 ? 0xfu : 0xffu);
    }
};

template <ops::WeightFormat code>
__global__ void __launch_bounds__(256) pack_kernel(PackCall call) {
    const int64_t chunk = int64_t{blockIdx.x} * 256 + threadIdx.x;
    const int64_t unit = chunk / 32;
    if (unit >= call.parts.columns / kColumnTile * call.parts.units) return;
    const int lane = static_cast<int>(chunk % 32);
    const int64_t column = unit / call.parts.units * kColumnTile + lane / 4;
    const int64_t first_k = unit % call.parts.units * unit_depth(code);
    uint32_t words[4] = {};
    for (int step = 0; step < unit_depth(code) / kStepDepth; ++step) {
        for (int i = 0; i < 4; ++i) {
            const int64_t k = first_k + step * kStepDepth + k_of(lane, i);
            const uint32_t raw = call.raw<code>(column, k);
            if (is_nibble(code)) {
                const int pair = 2 * (step & 1) + i / 2;
                words[step / 2] |= raw << (4 * pair + 16 * (i & 1));
            } else {
                words[step] |= raw << (8 * i);
            }
        }
    }
    gpu::store16(call.packed + chunk * kChunkBytes,
                 make_uint4(words[0], words[1], words[2], words[3]));
}

__global__ void __launch_bounds__(256) pack_scales_kernel(PackCall call) {
    const int64_t index = int64_t{blockIdx.x} * 256 + threadIdx.x;
    if (index >= call.parts.groups * call.parts.columns) return;
    const int64_t group = index / call.parts.columns;
    const int64_t column = index % call.parts.columns;
    const bool exists = column < call.out;
    const int64_t row = call.one_row_of_scales ? 0 : column;
    const int64_t from = row * call.parts.groups + group;
    store_float(call.packed + call.parts.scales, call.scale_type, index,
                exists ? call.scales[from] : 0.0f);
    if (call.zero_points == nullptr) return;
    auto* const points = reinterpret_cast<int8_t*>(call.packed + call.parts.zero_points);
    points[index] = exists ? call.zero_points[from] : int8_t{0};
}

template <ops::WeightFormat code>
void pack_values(const Context& context, const PackCall& call) {
    const int64_t chunks = call.parts.columns / kColumnTile * call.parts.units * 32;
    gpu::launch(
        pack_kernel<code>,
        gpu::Launch{.grid = {blocks_for(chunks, 256)}, .block = {256}, .stream = context.stream},
        call);
}

// Values of a row in whole runs of 16 bytes.
int64_t padded(int64_t in, size_t value_bytes) {
    const auto run = static_cast<int64_t>(16 / value_bytes);
    return int64_t{blocks_for(in, run)} * run;
}

bool has_scales_inside(const ActivationRounding& rounding) {
    return rounding.powers_of_two || rounding.global_scale > 0.0f;
}

int64_t num_scales(const ActivationRounding& rounding, int64_t in) {
    if (rounding.group_size == 0 || has_scales_inside(rounding)) return 1;
    return blocks_for(in, rounding.group_size);
}

// Whether groups of so many values of a row end where steps of `depth` do, or with the row.
bool ends_with_steps(int64_t group_size, int64_t in, int64_t depth) {
    return group_size % depth == 0 || group_size >= in;
}

// How many k of a group are summed before the sum joins the others. Sums of sparse matrices, which
// no warps share, stay whole.
int sum_depth(ops::WeightFormat code, int group_size, int in) {
    const bool ends_alike = group_size % kLongestSum == 0 || group_size == in;
    const bool is_cut = !ops::is_sparse(code) && group_size > kLongestSum && ends_alike;
    return is_cut ? kLongestSum : group_size;
}

// Whether weights of a layout and quantized x are multiplied as integers of one byte: a code less
// its zero point fits one, no step belongs to two groups, and no sum of a group leaves 32 bits.
bool multiplies_integers(const ops::QuantizedWeight& weight, DType compute_type) {
    constexpr int64_t kDepth = kMmaDepth<int8_t>;
    const ops::QuantizedLayout& layout = weight.layout;
    const ActivationRounding& rounding = weight.activations;
    const bool has_integers = layout.code == ops::WeightFormat::int4 ||
                              (layout.code == ops::WeightFormat::int8 && !layout.has_zero_points);
    const bool rounds_to_integers =
        rounding.code == ActivationFormat::int8 || rounding.code == ActivationFormat::int4;
    return compute_type != DType::f32 && has_integers && rounds_to_integers &&
           ends_with_steps(layout.group_size, layout.in, kDepth) &&
           ends_with_steps(rounding.group_size, layout.in, kDepth) &&
           std::min(layout.group_size, layout.in) <= kMaxIntegerTerms;
}

// Rounds x into scratch, to values of T.
template <typename T>
RoundingCall round_rows(const Context& context, const ConstTensorView& x,
                        const ops::QuantizedWeight& weight, bool scales_inside,
                        bool are_placed = false) {
    const int64_t tokens = x.dim(0);
    const int64_t in = x.dim(1);
    const ActivationRounding& rounding = weight.activations;
    RoundingCall rows{};
    rows.x = x.data;
    rows.x_stride = x.stride(0);
    rows.x_aligned = row_layout(x).aligned;
    rows.columns = weight.columns.data != nullptr ? weight.columns.as<int32_t>() : nullptr;
    rows.in = static_cast<int>(in);
    rows.padded_in = static_cast<int>(padded(in, sizeof(T)));
    rows.rounding = rounding;
    rows.group_size = static_cast<int>(rounding.group_size > 0 ? rounding.group_size : in);
    rows.scales_inside = scales_inside;
    rows.are_placed = are_placed;
    rows.row_maxima = weight.row_maxima.data == nullptr ? nullptr : weight.row_maxima.as<float>();
    rows.values = context.scratch->take(static_cast<size_t>(tokens * rows.padded_in) * sizeof(T));
    if (rounding.code != ActivationFormat::compute_type) {
        rows.scales_stride = scales_inside ? 1 : num_scales(rounding, in);
        rows.scales =
            context.scratch->take_array<float>(static_cast<size_t>(tokens * rows.scales_stride));
    }
    if (context.is_dry_run()) return rows;
    with_float_type(x.dtype, [&](auto element) {
        gpu::launch(round_rows_kernel<T, typename decltype(element)::Type>,
                    gpu::Launch{.grid = {static_cast<uint32_t>(tokens)},
                                .block = {kRoundingThreads},
                                .stream = context.stream,
                                .overlaps = true},
                    rows);
    });
    return rows;
}

// The same for a product with quantized values, which is told where they are.
template <typename T>
void round_rows(const Context& context, const ConstTensorView& x,
                const ops::QuantizedWeight& weight, QuantizedCall& call) {
    const RoundingCall rows = round_rows<T>(
        context, x, weight, has_scales_inside(weight.activations), std::is_same_v<T, int8_t>);
    call.x = rows.values;
    call.x_stride = rows.padded_in;
    call.x_scales = rows.scales;
    call.x_scales_stride = rows.scales_stride;
    call.x_group_size = rows.scales_stride > 1 ? rows.group_size : 0;
}

}  // namespace

bool can_multiply_quantized(const ops::QuantizedLayout& layout, const ActivationRounding& rounding,
                            const ComputeTarget& target) {
    const bool sparse = ops::is_sparse(layout.code);
    if (sparse && layout.in % 4 != 0) return false;
    // Values of the one 16-bit type are none of the other.
    const DType other = layout.code == ops::WeightFormat::sparse_float16 ? DType::bf16 : DType::f16;
    if (sparse && ops::plain_type(layout.code) != DType::i8 && target.activations == other)
        return false;
    // Scales inside may be beyond what float16 has.
    if (has_scales_inside(rounding) && target.activations == DType::f16) return false;
    const int64_t depth = sparse ? kSparseStepDepth : kStepDepth;
    return ends_with_steps(layout.group_size, layout.in, depth) &&
           ends_with_steps(rounding.group_size, layout.in, depth);
}

bool takes_as_it_is(const ConstTensorView& x, const ops::QuantizedWeight& weight,
                    DType compute_type) {
    return weight.activations.code == ActivationFormat::compute_type && x.dtype == compute_type &&
           weight.columns.data == nullptr && row_layout(x).aligned;
}

ConstTensorView rounded_rows(const Context& context, const ConstTensorView& x,
                             const ops::QuantizedWeight& weight, DType compute_type) {
    const void* const values = compute_type == DType::bf16
                                   ? round_rows<__nv_bfloat16>(context, x, weight, true).values
                                   : round_rows<__half>(context, x, weight, true).values;
    return ConstTensorView(values, compute_type, {x.dim(0), padded(x.dim(1), 2)}, x.device)
        .columns(0, x.dim(1));
}

QuantizedRows quantized_rows(const Context& context, const ConstTensorView& x,
                             const ops::QuantizedWeight& weight, DType codes) {
    const RoundingCall rows = codes == DType::i8
                                  ? round_rows<int8_t>(context, x, weight, false)
                                  : round_rows<__nv_fp8_e4m3>(context, x, weight, false);
    const ConstTensorView all(rows.values, codes, {x.dim(0), rows.padded_in}, x.device);
    return {all.columns(0, x.dim(1)), rows.scales};
}

QuantizedCall describe_weight(const ops::QuantizedWeight& weight) {
    const ops::QuantizedLayout& layout = weight.layout;
    QuantizedCall call{};
    call.product.in = static_cast<int>(layout.in);
    call.packed = weight.packed.as<unsigned char>();
    call.parts = packed_parts(layout);
    call.scale_type = layout.scale_type;
    call.has_zero_points = layout.has_zero_points;
    call.group_size = static_cast<int>(std::min(layout.group_size, layout.in));
    call.factor = weight.factor;
    return call;
}

size_t quantized_weight_bytes(const ops::QuantizedLayout& layout, const ComputeTarget&) {
    return static_cast<size_t>(packed_parts(layout).bytes);
}

void pack_weight(const Context& context, const ops::QuantizedLayout& layout,
                 const ops::UnpackedQuantizedWeight& plain, const TensorView& packed) {
    PackCall call{};
    call.scales = plain.scales.as<float>();
    call.zero_points = plain.zero_points.data != nullptr ? plain.zero_points.as<int8_t>() : nullptr;
    call.packed = packed.as<unsigned char>();
    call.parts = packed_parts(layout);
    call.in = layout.in;
    call.out = layout.out;
    call.one_row_of_scales = plain.scales.dim(0) == 1;
    call.scale_type = layout.scale_type;
    if (ops::is_sparse(layout.code)) {
        pack_sparse_values(context, layout, plain, call.packed);
    } else {
        call.codes = plain.codes.as<int8_t>();
        with_dense_format(layout.code,
                          [&](auto code) { pack_values<decltype(code)::kValue>(context, call); });
    }
    const int64_t values = call.parts.groups * call.parts.columns;
    gpu::launch(
        pack_scales_kernel,
        gpu::Launch{.grid = {blocks_for(values, 256)}, .block = {256}, .stream = context.stream},
        call);
}

void gemm_quantized(const Context& context, const ConstTensorView& x,
                    const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                    DType compute_type, ops::MatmulOutput output, const TensorView& y) {
    if (y.numel() == 0) return;
    const ops::QuantizedLayout& layout = weight.layout;
    QuantizedCall call = describe_weight(weight);
    call.product = describe_matmul(x, weight.packed, bias, y);
    call.product.accumulate = output == ops::MatmulOutput::accumulate;
    call.x = x.data;
    call.x_stride = x.stride(0);
    const ScratchArena::Scope scope(*context.scratch);
    if (multiplies_integers(weight, compute_type)) {
        call.sum_depth = call.group_size;
        round_rows<int8_t>(context, x, weight, call);
        select_gemm_quantized(context, call, layout.code, DType::i8);
        return;
    }
    call.sum_depth = sum_depth(layout.code, call.group_size, call.product.in);
    if (!takes_as_it_is(x, weight, compute_type)) {
        with_float_type(compute_type, [&](auto element) {
            round_rows<typename decltype(element)::Type>(context, x, weight, call);
        });
    }
    select_gemm_quantized(context, call, layout.code, compute_type);
}

}  // namespace nvllm::cuda
