// Names, sizes and scalar conversions of element types.
#include "kernels/types.h"

#include <array>

namespace nvllm {
namespace {

struct DTypeRow {
    DType dtype;
    const char* name;
    size_t bytes;
};

constexpr std::array<DTypeRow, 15> kDTypes = {{
    {DType::f32, "float32", 4},
    {DType::f16, "float16", 2},
    {DType::bf16, "bfloat16", 2},
    {DType::f64, "float64", 8},
    {DType::i64, "int64", 8},
    {DType::i32, "int32", 4},
    {DType::i16, "int16", 2},
    {DType::i8, "int8", 1},
    {DType::u64, "uint64", 8},
    {DType::u32, "uint32", 4},
    {DType::u16, "uint16", 2},
    {DType::u8, "uint8", 1},
    {DType::boolean, "bool", 1},
    {DType::f8_e4m3, "float8_e4m3", 1},
    {DType::f8_e5m2, "float8_e5m2", 1},
}};

}  // namespace

size_t dtype_bytes(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bytes; }

const char* dtype_name(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
    if (name == "half" || name == "fp16") return DType::f16;
    if (name == "bf16") return DType::bf16;
    if (name == "float" || name == "fp32") return DType::f32;
    for (const DTypeRow& row : kDTypes) {
        if (name == row.name) return row.dtype;
    }
    return std::nullopt;
}

Float16::Float16(float value) {
    const uint32_t raw = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (raw >> 16) & 0x8000u;
    const uint32_t magnitude = raw & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {  // NaN
        bits = static_cast<uint16_t>(sign | 0x7e00u);
    } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
        bits = static_cast<uint16_t>(sign | 0x7c00u);
    } else if (magnitude < 0x38800000u) {
        // Subnormal: adding 0.5 lets the float adder do the shift and the rounding.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
    } else {
        const uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
        bits = static_cast<uint16_t>(sign | (rounded >> 13));
    }
}

Float16::operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) {
        return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    }
    if (magnitude < 0x400u) {  // subnormal: magnitude * 2^-24, exact
        const float value = static_cast<float>(magnitude) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

Float8E4M3::Float8E4M3(float value) {
    const uint32_t raw = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (raw >> 24) & 0x80u;
    const uint32_t magnitude = raw & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {  // NaN
        bits = static_cast<uint8_t>(sign | 0x7fu);
    } else if (magnitude >= 0x43e00000u) {  // 448 and above
        bits = static_cast<uint8_t>(sign | 0x7eu);
    } else if (magnitude < 0x3c800000u) {
        // Subnormal, in steps of 2^-9: those of floats from 2^14 on.
        const float shifted = std::bit_cast<float>(magnitude) + 16384.0f;
        bits = static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000u));
    } else {
        const uint32_t rounded = magnitude - 0x3c000000u + 0x7ffffu + ((magnitude >> 20) & 1u);
        bits = static_cast<uint8_t>(sign | (rounded >> 20));
    }
}

Float8E4M3::operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
    const uint32_t magnitude = bits & 0x7fu;
    if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
    if (magnitude < 8u) {  // subnormal: magnitude * 2^-9, exact
        const float value = static_cast<float>(magnitude) * 0x1p-9f;
        return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << 20) + 0x3c000000u));
}

}  // namespace nvllm
