// Pairs of E2M1 in a byte: compressed-tensors' nvfp4-pack-quantized and mxfp4-pack-quantized.
#include <cmath>

#include "kernels/error.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm {
namespace {

constexpr int64_t kRowsPerRange = 8;

QuantizedMatrix read_nibbles(const QuantizedReader& reader) {
    if (reader.in() % 2 != 0) reader.refuse("weight_packed", "has an odd number of columns");
    const int64_t half = reader.in() / 2;
    const Tensor packed = reader.read("weight_packed", {reader.out(), half}, {DType::u8});
    QuantizedMatrix matrix = reader.make_matrix();
    if (!reader.has_values()) return matrix;
    const auto* from = packed.view().as<uint8_t>();
    auto* codes = matrix.codes.mutable_view().as<int8_t>();
    reader.threads().parallel_for(reader.out(), kRowsPerRange,
                                  [&](int64_t begin, int64_t end, int) {
                                      for (int64_t i = begin * half; i < end * half; ++i) {
                                          codes[2 * i] = static_cast<int8_t>(from[i] & 15);
                                          codes[2 * i + 1] = static_cast<int8_t>(from[i] >> 4);
                                      }
                                  });
    return matrix;
}

NamedTensor pack_nibbles(const QuantizedMatrix& matrix, const std::string& linear) {
    const QuantizationArguments& arguments = matrix.arguments;
    if (arguments.kind != NumberKind::floating || arguments.bits != 4 || matrix.in() % 2 != 0) {
        throw Error(ErrorKind::bad_data, linear + ": pairs of 4-bit floats cannot store it");
    }
    Tensor packed = Tensor::allocate(DType::u8, {matrix.out(), matrix.in() / 2});
    auto* to = packed.mutable_view().as<uint8_t>();
    const auto* codes = matrix.codes.view().as<uint8_t>();
    for (int64_t i = 0; i < packed.view().numel(); ++i) {
        to[i] = static_cast<uint8_t>((codes[2 * i] & 15) | (codes[2 * i + 1] << 4));
    }
    return {linear + ".weight_packed", packed};
}

NamedTensor number(const std::string& name, float value) {
    Tensor tensor = Tensor::allocate(DType::f32, {1});
    tensor.mutable_view().as<float>()[0] = value;
    return {name, tensor};
}

}  // namespace

ShardGranularity nibble_granularity(const QuantizationArguments& arguments) {
    return scale_granularity(arguments).with({1, 2});
}

QuantizedMatrix read_nvfp4(const QuantizedReader& reader) {
    QuantizedMatrix matrix = read_nibbles(reader);
    matrix.scales = reader.read_scales("weight_scale", {DType::f8_e4m3});
    matrix.global_scale = reader.read_number("weight_global_scale");
    if (!matrix.global_scale) reader.refuse("weight_global_scale", "is missing");
    matrix.input_global_scale = reader.read_number("input_global_scale");
    return matrix;
}

std::vector<NamedTensor> pack_nvfp4(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType) {
    NVLLM_CHECK(matrix.global_scale.has_value(), "NVFP4 has a scale of the whole matrix");
    const ConstTensorView& scales = matrix.scales.view();
    Tensor stored = Tensor::allocate(DType::f8_e4m3, {scales.dim(0), scales.dim(1)});
    for (int64_t i = 0; i < scales.numel(); ++i) {
        stored.mutable_view().as<uint8_t>()[i] = to_float8(scales.as<float>()[i]);
    }
    std::vector<NamedTensor> tensors = {
        pack_nibbles(matrix, linear),
        {linear + ".weight_scale", stored},
        number(linear + ".weight_global_scale", *matrix.global_scale)};
    if (matrix.input_global_scale) {
        tensors.push_back(number(linear + ".input_global_scale", *matrix.input_global_scale));
    }
    return tensors;
}

QuantizedMatrix read_mxfp4(const QuantizedReader& reader) {
    QuantizedMatrix matrix = read_nibbles(reader);
    matrix.scales = reader.read_scales("weight_scale", {DType::u8});
    return matrix;
}

std::vector<NamedTensor> pack_mxfp4(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType) {
    return {pack_nibbles(matrix, linear), {linear + ".weight_scale", exponents_of(matrix, linear)}};
}

Tensor exponents_of(const QuantizedMatrix& matrix, const std::string& linear) {
    const ConstTensorView& scales = matrix.scales.view();
    Tensor stored = Tensor::allocate(DType::u8, {scales.dim(0), scales.dim(1)});
    for (int64_t i = 0; i < scales.numel(); ++i) {
        const uint8_t exponent = to_exponent(scales.as<float>()[i]);
        if (from_exponent(exponent) != scales.as<float>()[i]) {
            throw Error(ErrorKind::bad_data, linear + ": MX stores scales that are powers of two");
        }
        stored.mutable_view().as<uint8_t>()[i] = exponent;
    }
    return stored;
}

}  // namespace nvllm
