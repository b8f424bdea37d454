// Formats that keep each code in a byte of its own: int-quantized, float-quantized,
// naive-quantized, mxfp8-quantized, and block-wise FP8 of others than compressed-tensors.
#include <cstring>

#include "kernels/error.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm {
namespace {

constexpr uint8_t kNotANumber = 0x7f;

// Looks at all, so that the loop becomes one over vectors.
template <typename T, typename Is>
bool has_any(const T* values, int64_t count, Is is) {
    uint8_t any = 0;
    for (int64_t i = 0; i < count; ++i) any |= static_cast<uint8_t>(is(values[i]));
    return any != 0;
}

void check_floats(const QuantizedReader& reader, const Tensor& codes) {
    const auto* bytes = codes.view().as<uint8_t>();
    const auto is_none = [](uint8_t byte) { return (byte & 0x7f) == kNotANumber; };
    if (has_any(bytes, codes.view().numel(), is_none)) reader.refuse("weight", "holds a NaN");
}

// Integers beyond their bits would not fit where fewer bits are multiplied.
void check_integers(const QuantizedReader& reader, const char* name, const Tensor& integers) {
    const int32_t low = lowest_code(reader.weights());
    const int32_t high = highest_code(reader.weights());
    const auto is_beyond = [=](int8_t value) { return value < low || value > high; };
    if (has_any(integers.view().as<int8_t>(), integers.view().numel(), is_beyond)) {
        reader.refuse(name, "holds integers of more bits than the config says");
    }
}

QuantizedMatrix read_bytes(const QuantizedReader& reader) {
    const bool floats = reader.weights().kind == NumberKind::floating;
    const Tensor stored = reader.read_matrix(floats ? DType::f8_e4m3 : DType::i8);
    if (!reader.has_values()) return reader.make_matrix();
    QuantizedMatrix matrix = reader.make_matrix(
        Tensor::borrow(ConstTensorView(stored.view().data, DType::i8, {reader.out(), reader.in()}),
                       std::make_shared<const Tensor>(stored)));
    if (floats) {
        check_floats(reader, matrix.codes);
    } else if (reader.weights().bits < 8) {
        check_integers(reader, "weight", matrix.codes);
    }
    return matrix;
}

void read_zero_points(const QuantizedReader& reader, QuantizedMatrix& matrix) {
    const Tensor stored = reader.read_bytes_of_scales("weight_zero_point");
    if (!reader.has_values()) return;
    check_integers(reader, "weight_zero_point", stored);
    std::memcpy(matrix.zero_points.mutable_view().data, stored.view().data, stored.bytes());
}

NamedTensor codes_as(const QuantizedMatrix& matrix, const std::string& linear, DType type) {
    return {linear + ".weight", Tensor::borrow(ConstTensorView(matrix.codes.view().data, type,
                                                               {matrix.out(), matrix.in()}),
                                               std::make_shared<const Tensor>(matrix.codes))};
}

NamedTensor number(const std::string& name, float value, DType type) {
    Tensor tensor = Tensor::allocate(DType::f32, {1});
    tensor.mutable_view().as<float>()[0] = value;
    return {name, in_type(tensor, type, {1})};
}

void check_kind(const QuantizedMatrix& matrix, const std::string& linear, const char* format) {
    const QuantizationArguments& arguments = matrix.arguments;
    const bool one_byte = arguments.kind == NumberKind::integer || arguments.bits == 8;
    if (!one_byte || !matrix.group_index.empty() || matrix.global_scale) {
        throw Error(ErrorKind::bad_data,
                    linear + ": " + format + " cannot store a matrix of these arguments");
    }
}

}  // namespace

QuantizedMatrix read_codes(const QuantizedReader& reader) {
    QuantizedMatrix matrix = read_bytes(reader);
    matrix.scales = reader.read_scales("weight_scale");
    if (!reader.weights().symmetric) read_zero_points(reader, matrix);
    matrix.input_scale = reader.read_number("input_scale");
    return matrix;
}

std::vector<NamedTensor> pack_codes(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType scale_type) {
    check_kind(matrix, linear, "one byte for each code");
    const bool floats = matrix.arguments.kind == NumberKind::floating;
    const ConstTensorView& scales = matrix.scales.view();
    const bool single = matrix.arguments.strategy == QuantizationStrategy::tensor;
    std::vector<NamedTensor> tensors = {
        codes_as(matrix, linear, floats ? DType::f8_e4m3 : DType::i8),
        {linear + ".weight_scale",
         single ? in_type(matrix.scales, scale_type, {1})
                : in_type(matrix.scales, scale_type, {scales.dim(0), scales.dim(1)})}};
    if (!matrix.zero_points.empty()) {
        tensors.push_back({linear + ".weight_zero_point", matrix.zero_points});
    }
    if (matrix.input_scale) {
        tensors.push_back(number(linear + ".input_scale", *matrix.input_scale, scale_type));
    }
    return tensors;
}

QuantizedMatrix read_float8_blocks(const QuantizedReader& reader) {
    QuantizedMatrix matrix = read_bytes(reader);
    matrix.scales = reader.read_scales("weight_scale_inv");
    return matrix;
}

std::vector<NamedTensor> pack_float8_blocks(const QuantizedMatrix& matrix,
                                            const std::string& linear, DType) {
    check_kind(matrix, linear, "fp8-block");
    if (matrix.arguments.strategy != QuantizationStrategy::block) {
        throw Error(ErrorKind::bad_data, linear + ": fp8-block stores blocks only");
    }
    return {codes_as(matrix, linear, DType::f8_e4m3),
            {linear + ".weight_scale_inv", matrix.scales}};
}

QuantizedMatrix read_mxfp8(const QuantizedReader& reader) {
    QuantizedMatrix matrix = read_bytes(reader);
    matrix.scales = reader.read_scales("weight_scale", {DType::u8});
    return matrix;
}

std::vector<NamedTensor> pack_mxfp8(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType) {
    check_kind(matrix, linear, "mxfp8-quantized");
    return {codes_as(matrix, linear, DType::f8_e4m3),
            {linear + ".weight_scale", exponents_of(matrix, linear)}};
}

}  // namespace nvllm
