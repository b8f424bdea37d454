// Scales and codes: how compressed-tensors chooses and rounds them, done once for all methods.
#include "lib/model/weights/quantized_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/error.h"

namespace nvllm {
namespace {

using Strategy = QuantizationStrategy;
constexpr int64_t kRowsPerRange = 16;

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

int64_t scale_rows(const QuantizationArguments& arguments, int64_t out) {
    if (arguments.strategy == Strategy::tensor) return std::max<int64_t>(out, 1);
    return arguments.strategy == Strategy::block ? arguments.block->rows : 1;
}

int64_t scale_columns(const QuantizationArguments& arguments, int64_t in) {
    if (arguments.strategy == Strategy::block) return arguments.block->columns;
    const bool grouped =
        arguments.strategy == Strategy::group || arguments.strategy == Strategy::tensor_group;
    return grouped ? *arguments.group_size : std::max<int64_t>(in, 1);
}

float largest_value(const QuantizationArguments& arguments) {
    return arguments.bits == 4 ? kLargestFloat4 : kLargestFloat8;
}

// Codes to what they stand for.
using ValueTable = std::array<float, 256>;

float value_of(const QuantizationArguments& arguments, int8_t code) {
    if (arguments.kind == NumberKind::integer) return static_cast<float>(code);
    const auto bits = static_cast<uint8_t>(code);
    return arguments.bits == 4 ? from_float4(bits) : from_float8(bits);
}

ValueTable value_table(const QuantizationArguments& arguments) {
    ValueTable table{};
    for (size_t i = 0; i < table.size(); ++i) {
        table[i] = value_of(arguments, static_cast<int8_t>(static_cast<uint8_t>(i)));
    }
    return table;
}

float rounded_to(DType type, float value) {
    if (type == DType::bf16) return static_cast<float>(BFloat16(value));
    if (type == DType::f16) return static_cast<float>(Float16(value));
    return value;
}

// What a scale of zero becomes: the gap behind 1 in the scale's type.
float min_scale(const QuantizationArguments& arguments, DType type) {
    if (arguments.strategy == Strategy::tensor_group) return 0.125f;
    if (type == DType::bf16) return 0x1p-7f;
    return type == DType::f16 ? 0x1p-10f : 0x1p-23f;
}

ChosenScale choose_asymmetric(const QuantizationArguments& arguments, float minimum, float maximum,
                              DType type) {
    const int32_t low = lowest_code(arguments);
    const int32_t high = highest_code(arguments);
    ChosenScale chosen;
    chosen.scale = rounded_to(type, (maximum - minimum) / static_cast<float>(high - low));
    if (chosen.scale == 0.0f) chosen.scale = min_scale(arguments, type);
    const float zero = static_cast<float>(low) - minimum / chosen.scale;
    chosen.zero_point = static_cast<int8_t>(
        std::nearbyint(std::clamp(zero, static_cast<float>(low), static_cast<float>(high))));
    return chosen;
}

}  // namespace

ScaleShape scale_shape(const QuantizationArguments& arguments, int64_t out, int64_t in) {
    return {divided_up(out, scale_rows(arguments, out)),
            divided_up(in, scale_columns(arguments, in))};
}

ShardGranularity scale_granularity(const QuantizationArguments& arguments) {
    switch (arguments.strategy) {
        case QuantizationStrategy::block:
            return {arguments.block->rows, arguments.block->columns};
        case QuantizationStrategy::group:
        case QuantizationStrategy::tensor_group:
            return {1, *arguments.group_size};
        default:
            return {};
    }
}

ScaleIndex::ScaleIndex(const QuantizationArguments& arguments, int64_t out, int64_t in,
                       const int32_t* group_index)
    : rows_(scale_rows(arguments, out)),
      columns_(scale_columns(arguments, in)),
      groups_(divided_up(in, columns_)),
      group_index_(group_index) {}

ScaleIndex::ScaleIndex(const QuantizedMatrix& matrix)
    : ScaleIndex(matrix.arguments, matrix.out(), matrix.in(),
                 matrix.group_index.empty() ? nullptr : matrix.group_index.view().as<int32_t>()) {}

int32_t lowest_code(const QuantizationArguments& arguments) { return -(1 << (arguments.bits - 1)); }
int32_t highest_code(const QuantizationArguments& arguments) {
    return (1 << (arguments.bits - 1)) - 1;
}

ChosenScale choose_scale(const QuantizationArguments& arguments, float minimum, float maximum,
                         std::optional<float> global_scale, DType scale_type) {
    minimum = std::min(minimum, 0.0f);
    maximum = std::max(maximum, 0.0f);
    if (!arguments.symmetric) return choose_asymmetric(arguments, minimum, maximum, scale_type);
    const float largest = std::max(-minimum, maximum);
    if (arguments.scales_are_powers_of_two) {
        return {choose_power_of_two(largest, arguments.bits == 4), 0};
    }
    const float half_range = arguments.kind == NumberKind::floating
                                 ? largest_value(arguments)
                                 : static_cast<float>((1 << arguments.bits) - 1) / 2.0f;
    float scale = largest / half_range;
    if (arguments.strategy == Strategy::tensor_group) {
        scale = from_float8(to_float8(scale * global_scale.value_or(1.0f)));
    } else {
        scale = rounded_to(scale_type, scale);
    }
    return {scale == 0.0f ? min_scale(arguments, scale_type) : scale, 0};
}

float choose_global_scale(float largest) {
    const float scale =
        kLargestFloat8 * kLargestFloat4 / std::max(largest, std::numeric_limits<float>::min());
    return std::isfinite(scale) ? scale : 1.0f;
}

int8_t quantize_value(const QuantizationArguments& arguments, float value, float scale,
                      int8_t zero_point) {
    const float scaled = value / scale;
    if (arguments.kind == NumberKind::floating) {
        return static_cast<int8_t>(arguments.bits == 4 ? to_float4(scaled) : to_float8(scaled));
    }
    const float shifted = scaled + static_cast<float>(zero_point);
    return static_cast<int8_t>(
        std::nearbyint(std::clamp(shifted, static_cast<float>(lowest_code(arguments)),
                                  static_cast<float>(highest_code(arguments)))));
}

float dequantize_code(const QuantizationArguments& arguments, int8_t code, float scale,
                      int8_t zero_point) {
    return (value_of(arguments, code) - static_cast<float>(zero_point)) * scale;
}

std::vector<ValueRange> value_ranges(const ConstTensorView& weight, const ScaleIndex& index) {
    std::vector<ValueRange> ranges(
        static_cast<size_t>(divided_up(weight.dim(0), index.rows()) * index.groups()));
    const int64_t in = weight.dim(1);
    for (int64_t row = 0; row < weight.dim(0); ++row) {
        const float* const values = weight.as<float>() + row * in;
        for (int64_t column = 0; column < in; ++column) {
            ranges[static_cast<size_t>(index.at(row, column))].add(values[column]);
        }
    }
    return ranges;
}

void dequantize(const QuantizedMatrix& matrix, ThreadPool& threads, const TensorView& values) {
    const int64_t in = matrix.in();
    ValueTable table = value_table(matrix.arguments);
    std::copy(matrix.table.begin(), matrix.table.end(), table.begin());
    const ScaleIndex index(matrix);
    const auto* codes = matrix.codes.view().as<uint8_t>();
    const auto* scales = matrix.scales.view().as<float>();
    const auto* zeros =
        matrix.zero_points.empty() ? nullptr : matrix.zero_points.view().as<int8_t>();
    auto* const out = values.as<float>();
    threads.parallel_for(matrix.out(), kRowsPerRange, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            for (int64_t column = 0; column < in; ++column) {
                const int64_t at = index.at(row, column);
                const float zero = zeros == nullptr ? 0.0f : static_cast<float>(zeros[at]);
                out[row * in + column] = (table[codes[row * in + column]] - zero) *
                                         effective_scale(scales[at], matrix.global_scale);
            }
        }
    });
}

Tensor dequantized(const QuantizedMatrix& matrix, ThreadPool& threads) {
    Tensor result = Tensor::allocate(DType::f32, {matrix.out(), matrix.in()});
    dequantize(matrix, threads, result.mutable_view());
    return result;
}

Tensor dequantized(const QuantizedMatrix& matrix) {
    ThreadPool alone(1);
    return dequantized(matrix, alone);
}

namespace {

void choose_scales(QuantizedMatrix& matrix, const std::vector<ValueRange>& ranges, DType scale_type,
                   float largest) {
    for (const ValueRange& range : ranges) {
        largest = std::max({largest, -range.minimum, range.maximum});
    }
    if (matrix.arguments.strategy == Strategy::tensor_group) {
        matrix.global_scale = choose_global_scale(largest);
    }
    auto* scales = matrix.scales.mutable_view().as<float>();
    for (size_t i = 0; i < ranges.size(); ++i) {
        const ChosenScale chosen = choose_scale(matrix.arguments, ranges[i].minimum,
                                                ranges[i].maximum, matrix.global_scale, scale_type);
        scales[i] = chosen.scale;
        if (!matrix.zero_points.empty()) {
            matrix.zero_points.mutable_view().as<int8_t>()[i] = chosen.zero_point;
        }
    }
}

void round_codes(const ConstTensorView& weight, DType quotient_type, QuantizedMatrix& matrix,
                 ThreadPool& threads) {
    const int64_t in = matrix.in();
    const ScaleIndex index(matrix);
    const auto* values = weight.as<float>();
    const auto* scales = matrix.scales.view().as<float>();
    const auto* zeros =
        matrix.zero_points.empty() ? nullptr : matrix.zero_points.view().as<int8_t>();
    auto* codes = matrix.codes.mutable_view().as<int8_t>();
    threads.parallel_for(matrix.out(), kRowsPerRange, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin * in; i < end * in; ++i) {
            const int64_t at = index.at(i / in, i % in);
            const float scale = effective_scale(scales[at], matrix.global_scale);
            codes[i] =
                quantize_value(matrix.arguments, rounded_to(quotient_type, values[i] / scale), 1.0f,
                               zeros == nullptr ? int8_t{0} : zeros[at]);
        }
    });
}

}  // namespace

QuantizedMatrix round_to_nearest(const ConstTensorView& weight,
                                 const QuantizationArguments& arguments, DType scale_type,
                                 ThreadPool& threads, float largest) {
    NVLLM_CHECK(weight.dtype == DType::f32 && weight.rank == 2,
                "float32 matrices are rounded, not " + weight.describe());
    const int64_t out = weight.dim(0);
    const int64_t in = weight.dim(1);
    const ScaleShape shape = scale_shape(arguments, out, in);
    QuantizedMatrix matrix;
    matrix.arguments = arguments;
    matrix.codes = Tensor::allocate(DType::i8, {out, in});
    matrix.scales = Tensor::allocate(DType::f32, {shape.rows, shape.columns});
    if (!arguments.symmetric) {
        matrix.zero_points = Tensor::allocate(DType::i8, {shape.rows, shape.columns});
    }
    choose_scales(matrix, value_ranges(weight, ScaleIndex(arguments, out, in)), scale_type,
                  largest);
    round_codes(weight, scale_type, matrix, threads);
    return matrix;
}

}  // namespace nvllm
