// Which scale a value has, for every strategy.
#include "lib/quantize/methods/matrix_quantizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace nvllm::quantize {

MatrixQuantizer::MatrixQuantizer(const QuantizationArguments& arguments, int64_t out, int64_t in,
                                 DType scale_type, float largest)
    : index_(arguments, out, in), scale_type_(scale_type) {
    const ScaleShape shape = scale_shape(arguments, out, in);
    per_row_ = shape.rows == out && index_.rows() == 1;
    matrix_.arguments = arguments;
    matrix_.codes = Tensor::allocate(DType::i8, {out, in});
    matrix_.scales = Tensor::allocate(DType::f32, {shape.rows, shape.columns});
    if (!arguments.symmetric) {
        matrix_.zero_points = Tensor::allocate(DType::i8, {shape.rows, shape.columns});
    }
    if (arguments.strategy == QuantizationStrategy::tensor_group) {
        NVLLM_CHECK(largest >= 0.0f, "a magnitude");
        matrix_.global_scale = choose_global_scale(largest);
    }
    effective_.assign(static_cast<size_t>(shape.rows * shape.columns), 1.0f);
}

void MatrixQuantizer::set_group_index(std::span<const int32_t> groups) {
    NVLLM_CHECK(static_cast<int64_t>(groups.size()) == matrix_.in(), "a group for each column");
    matrix_.group_index = Tensor::allocate(DType::i32, {matrix_.in()});
    std::copy(groups.begin(), groups.end(), matrix_.group_index.mutable_view().as<int32_t>());
    index_ = ScaleIndex(matrix_);
}

void MatrixQuantizer::store(int64_t index, float minimum, float maximum) {
    const ChosenScale chosen =
        choose_scale(matrix_.arguments, minimum, maximum, matrix_.global_scale, scale_type_);
    matrix_.scales.mutable_view().as<float>()[index] = chosen.scale;
    if (!matrix_.zero_points.empty()) {
        matrix_.zero_points.mutable_view().as<int8_t>()[index] = chosen.zero_point;
    }
    effective_[static_cast<size_t>(index)] = effective_scale(chosen.scale, matrix_.global_scale);
}

void MatrixQuantizer::choose(int64_t row, int64_t group, float minimum, float maximum) {
    store(row / index_.rows() * index_.groups() + group, minimum, maximum);
}

void MatrixQuantizer::choose_all(const ConstTensorView& weight) {
    const std::vector<ValueRange> ranges = value_ranges(weight, index_);
    for (size_t i = 0; i < ranges.size(); ++i) {
        store(static_cast<int64_t>(i), ranges[i].minimum, ranges[i].maximum);
    }
}

float MatrixQuantizer::quantize(int64_t row, int64_t column, float value) {
    const int64_t index = index_.at(row, column);
    const int8_t zero_point =
        matrix_.zero_points.empty() ? int8_t{0} : matrix_.zero_points.view().as<int8_t>()[index];
    const float scale = effective_[static_cast<size_t>(index)];
    const int8_t code = quantize_value(matrix_.arguments, value, scale, zero_point);
    matrix_.codes.mutable_view().as<int8_t>()[row * matrix_.in() + column] = code;
    return dequantize_code(matrix_.arguments, code, scale, zero_point);
}

QuantizedMatrix MatrixQuantizer::take() { return std::move(matrix_); }

float largest_magnitude(const ConstTensorView& weight) {
    float largest = 0.0f;
    const float* const values = weight.as<float>();
    for (int64_t i = 0; i < weight.numel(); ++i) largest = std::max(largest, std::abs(values[i]));
    return largest;
}

}  // namespace nvllm::quantize
