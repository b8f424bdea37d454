// Which scale a value has, for every strategy.
#include "lib/quantize/matrix_quantizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/context.h"
#include "kernels/error.h"
#include "kernels/thread_pool.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kRowGrain = 8;

float rounded_to(DType type, float value) {
    if (type == DType::bf16) return static_cast<float>(BFloat16(value));
    if (type == DType::f16) return static_cast<float>(Float16(value));
    return value;
}

}  // namespace

MatrixQuantizer::MatrixQuantizer(const QuantizationArguments& arguments, int64_t out, int64_t in,
                                 DType scale_type, float largest)
    : shape_(scale_shape(arguments, out, in)),
      scale_type_(scale_type),
      group_columns_((in + shape_.columns - 1) / shape_.columns),
      rows_of_scale_((out + shape_.rows - 1) / shape_.rows) {
    if (arguments.group_size) group_columns_ = *arguments.group_size;
    if (arguments.block) {
        group_columns_ = arguments.block->columns;
        rows_of_scale_ = arguments.block->rows;
    }
    per_row_ = shape_.rows == out && rows_of_scale_ == 1;
    matrix_.arguments = arguments;
    matrix_.codes = Tensor::allocate(DType::i8, {out, in});
    matrix_.scales = Tensor::allocate(DType::f32, {shape_.rows, shape_.columns});
    if (!arguments.symmetric) {
        matrix_.zero_points = Tensor::allocate(DType::i8, {shape_.rows, shape_.columns});
    }
    if (arguments.strategy == QuantizationStrategy::tensor_group) {
        NVLLM_CHECK(largest >= 0.0f, "a magnitude");
        matrix_.global_scale = choose_global_scale(largest);
    }
    groups_.resize(static_cast<size_t>(in));
    for (int64_t column = 0; column < in; ++column) {
        groups_[static_cast<size_t>(column)] = static_cast<int32_t>(column / group_columns_);
    }
    effective_.assign(static_cast<size_t>(shape_.rows * shape_.columns), 1.0f);
}

void MatrixQuantizer::set_group_index(std::span<const int32_t> groups) {
    NVLLM_CHECK(groups.size() == groups_.size(), "a group for each column");
    std::copy(groups.begin(), groups.end(), groups_.begin());
    matrix_.group_index = Tensor::allocate(DType::i32, {static_cast<int64_t>(groups.size())});
    std::copy(groups.begin(), groups.end(), matrix_.group_index.mutable_view().as<int32_t>());
}

int64_t MatrixQuantizer::scale_index(int64_t row, int64_t column) const {
    return row / rows_of_scale_ * shape_.columns + groups_[static_cast<size_t>(column)];
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
    store(row / rows_of_scale_ * shape_.columns + group, minimum, maximum);
}

void MatrixQuantizer::choose_all(const ConstTensorView& weight) {
    std::vector<ValueRange> ranges(effective_.size());
    const int64_t in = weight.dim(1);
    for (int64_t row = 0; row < weight.dim(0); ++row) {
        const float* const values = weight.as<float>() + row * in;
        for (int64_t column = 0; column < in; ++column) {
            ranges[static_cast<size_t>(scale_index(row, column))].add(values[column]);
        }
    }
    for (size_t i = 0; i < ranges.size(); ++i) {
        store(static_cast<int64_t>(i), ranges[i].minimum, ranges[i].maximum);
    }
}

float MatrixQuantizer::quantize(int64_t row, int64_t column, float value, DType quotient_type) {
    const int64_t index = scale_index(row, column);
    const int8_t zero_point =
        matrix_.zero_points.empty() ? int8_t{0} : matrix_.zero_points.view().as<int8_t>()[index];
    const float scale = effective_[static_cast<size_t>(index)];
    const float quotient = rounded_to(quotient_type, value / scale);
    const int8_t code = quantize_value(matrix_.arguments, quotient, 1.0f, zero_point);
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

QuantizedMatrix round_matrix(const Context& context, MatrixQuantizer quantizer,
                             const TensorView& weight) {
    quantizer.choose_all(weight);
    const int64_t in = weight.dim(1);
    context.threads->parallel_for(weight.dim(0), kRowGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            float* const values = weight.as<float>() + row * in;
            for (int64_t column = 0; column < in; ++column) {
                values[column] =
                    quantizer.quantize(row, column, values[column], quantizer.scale_type());
            }
        }
    });
    return quantizer.take();
}

}  // namespace nvllm::quantize
