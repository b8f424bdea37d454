// From formats' arguments to what the op takes.
#include "lib/model/weights/quantized_operands.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace nvllm {
namespace {

ops::WeightFormat code_of(const QuantizationArguments& arguments) {
    const bool narrow = arguments.bits <= 4;
    if (arguments.kind == NumberKind::integer) {
        return narrow ? ops::WeightFormat::int4 : ops::WeightFormat::int8;
    }
    return narrow ? ops::WeightFormat::float4 : ops::WeightFormat::float8;
}

std::optional<ops::ActivationFormat> activation_code(const QuantizationArguments& inputs) {
    if (inputs.kind == NumberKind::integer) {
        if (!inputs.symmetric || (inputs.bits != 8 && inputs.bits != 4)) return std::nullopt;
        return inputs.bits == 8 ? ops::ActivationFormat::int8 : ops::ActivationFormat::int4;
    }
    return inputs.bits == 8 ? ops::ActivationFormat::float8 : ops::ActivationFormat::float4;
}

}  // namespace

std::optional<ops::QuantizedLayout> operand_layout(const QuantizedMatrix& matrix,
                                                   DType scale_type) {
    const ScaleIndex index(matrix);
    ops::QuantizedLayout layout;
    layout.code = code_of(matrix.arguments);
    layout.out = matrix.out();
    layout.in = matrix.in();
    layout.group_size = index.columns();
    layout.has_zero_points = !matrix.zero_points.empty();
    layout.scale_type = scale_type;
    if (matrix.out() == 0 || matrix.in() == 0 || !matrix.table.empty()) return std::nullopt;
    return layout;
}

ops::ActivationRounding operand_rounding(const QuantizationScheme& scheme,
                                         const QuantizedMatrix& matrix) {
    if (!scheme.input_activations) return {};
    const QuantizationArguments& inputs = *scheme.input_activations;
    const std::optional<ops::ActivationFormat> code = activation_code(inputs);
    if (!code) return {};
    ops::ActivationRounding rounding;
    rounding.code = *code;
    rounding.group_size = inputs.group_size.value_or(0);
    rounding.powers_of_two = inputs.scales_are_powers_of_two;
    if (inputs.strategy == QuantizationStrategy::tensor_group) {
        if (!matrix.input_global_scale) return {};
        rounding.global_scale = *matrix.input_global_scale;
    } else if (inputs.dynamic == DynamicScales::no) {
        rounding.scale = matrix.input_scale.value_or(0.0f);
    }
    return rounding;
}

std::optional<Tensor> grouped_columns(const QuantizedMatrix& matrix) {
    const int64_t in = matrix.in();
    const auto* groups = matrix.group_index.view().as<int32_t>();
    Tensor columns = Tensor::allocate(DType::i32, {in});
    auto* order = columns.mutable_view().as<int32_t>();
    std::iota(order, order + in, 0);
    std::stable_sort(order, order + in,
                     [&](int32_t a, int32_t b) { return groups[a] < groups[b]; });
    const ScaleIndex index(matrix.arguments, matrix.out(), in);
    for (int64_t i = 0; i < in; ++i) {
        if (groups[order[i]] != i / index.columns()) return std::nullopt;
    }
    return columns;
}

Tensor with_columns(const Tensor& codes, const Tensor& columns, ThreadPool& threads) {
    const int64_t in = codes.view().dim(1);
    Tensor result = Tensor::allocate(DType::i8, {codes.view().dim(0), in});
    const auto* from = codes.view().as<int8_t>();
    const auto* order = columns.view().as<int32_t>();
    auto* to = result.mutable_view().as<int8_t>();
    threads.parallel_for(codes.view().dim(0), 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            for (int64_t i = 0; i < in; ++i) to[row * in + i] = from[row * in + order[i]];
        }
    });
    return result;
}

Tensor for_each_row(const QuantizedMatrix& matrix, const Tensor& of_scales) {
    const ScaleIndex index(matrix);
    const bool is_single =
        of_scales.view().dim(0) == 1 && matrix.arguments.strategy == QuantizationStrategy::tensor;
    if (index.rows() == 1 || is_single) return of_scales;
    const int64_t row_bytes =
        index.groups() * static_cast<int64_t>(dtype_bytes(of_scales.view().dtype));
    Tensor result = Tensor::allocate(of_scales.view().dtype, {matrix.out(), index.groups()});
    for (int64_t row = 0; row < matrix.out(); ++row) {
        std::memcpy(result.mutable_view().as<std::byte>() + row * row_bytes,
                    of_scales.view().as<std::byte>() + row / index.rows() * row_bytes,
                    static_cast<size_t>(row_bytes));
    }
    return result;
}

}  // namespace nvllm
