// Pairs of E2M1 in a byte: compressed-tensors' nvfp4-pack-quantized and mxfp4-pack-quantized, and
// ModelOpt's NVFP4, whose scales of a whole tensor multiply where the former's divide.
#include <fmt/format.h>

#include <cmath>

#include "kernels/error.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm {
namespace {

constexpr int64_t kRowsPerRange = 8;

QuantizedMatrix read_nibbles(const QuantizedReader& reader, const char* suffix) {
    if (reader.in() % 2 != 0) reader.refuse(suffix, "has an odd number of columns");
    const int64_t half = reader.in() / 2;
    const Tensor packed = reader.read(suffix, {reader.out(), half}, {DType::u8});
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

NamedTensor pack_nibbles(const QuantizedMatrix& matrix, const std::string& linear,
                         const char* suffix) {
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
    return {fmt::format("{}.{}", linear, suffix), packed};
}

NamedTensor number(const std::string& name, float value) {
    Tensor tensor = Tensor::allocate(DType::f32, {1});
    tensor.mutable_view().as<float>()[0] = value;
    return {name, tensor};
}

NamedTensor float8_scales(const QuantizedMatrix& matrix, const std::string& linear) {
    const ConstTensorView& scales = matrix.scales.view();
    Tensor stored = Tensor::allocate(DType::f8_e4m3, {scales.dim(0), scales.dim(1)});
    for (int64_t i = 0; i < scales.numel(); ++i) {
        stored.mutable_view().as<uint8_t>()[i] = to_float8(scales.as<float>()[i]);
    }
    return {linear + ".weight_scale", stored};
}

}  // namespace

ShardGranularity nibble_granularity(const QuantizationArguments& arguments) {
    return scale_granularity(arguments).with({1, 2});
}

QuantizedMatrix read_nvfp4(const QuantizedReader& reader) {
    QuantizedMatrix matrix = read_nibbles(reader, "weight_packed");
    matrix.scales = reader.read_scales("weight_scale", {DType::f8_e4m3});
    matrix.global_scale = reader.read_number("weight_global_scale");
    if (!matrix.global_scale) reader.refuse("weight_global_scale", "is missing");
    matrix.input_global_scale = reader.read_number("input_global_scale");
    return matrix;
}

std::vector<NamedTensor> pack_nvfp4(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType) {
    NVLLM_CHECK(matrix.global_scale.has_value(), "NVFP4 has a scale of the whole matrix");
    std::vector<NamedTensor> tensors = {
        pack_nibbles(matrix, linear, "weight_packed"), float8_scales(matrix, linear),
        number(linear + ".weight_global_scale", *matrix.global_scale)};
    if (matrix.input_global_scale) {
        tensors.push_back(number(linear + ".input_global_scale", *matrix.input_global_scale));
    }
    return tensors;
}

QuantizedMatrix read_nvfp4_modelopt(const QuantizedReader& reader) {
    QuantizedMatrix matrix = read_nibbles(reader, "weight");
    matrix.scales = reader.read_scales("weight_scale", {DType::f8_e4m3});
    const std::optional<float> global = reader.read_number("weight_scale_2");
    if (!global) reader.refuse("weight_scale_2", "is missing");
    matrix.global_scale = 1.0f / *global;
    if (const auto input = reader.read_number("input_scale")) {
        matrix.input_global_scale = 1.0f / *input;
    }
    return matrix;
}

std::vector<NamedTensor> pack_nvfp4_modelopt(const QuantizedMatrix& matrix,
                                             const std::string& linear, DType) {
    NVLLM_CHECK(matrix.global_scale.has_value(), "NVFP4 has a scale of the whole matrix");
    std::vector<NamedTensor> tensors = {
        pack_nibbles(matrix, linear, "weight"), float8_scales(matrix, linear),
        number(linear + ".weight_scale_2", 1.0f / *matrix.global_scale)};
    if (matrix.input_global_scale) {
        tensors.push_back(number(linear + ".input_scale", 1.0f / *matrix.input_global_scale));
    }
    return tensors;
}

QuantizedMatrix read_mxfp4(const QuantizedReader& reader) {
    QuantizedMatrix matrix = read_nibbles(reader, "weight_packed");
    matrix.scales = reader.read_scales("weight_scale", {DType::u8});
    return matrix;
}

std::vector<NamedTensor> pack_mxfp4(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType) {
    return {pack_nibbles(matrix, linear, "weight_packed"),
            {linear + ".weight_scale", exponents_of(matrix, linear)}};
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
