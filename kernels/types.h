// Element types and devices: the vocabulary every room shares.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nvllm {

enum class DType : uint8_t {
    f32,
    f16,
    bf16,
    f64,
    i64,
    i32,
    i16,
    i8,
    u64,
    u32,
    u16,
    u8,
    boolean,
    f8_e4m3,
    f8_e5m2
};

// Bytes of one element.
size_t dtype_bytes(DType dtype);

// "float32", "bfloat16", ... as users write them in --dtype and config.json.
const char* dtype_name(DType dtype);

// The inverse of dtype_name; also takes "half" and "float". Empty when the name is unknown.
std::optional<DType> dtype_from_name(std::string_view name);

// What devices are, as far as ops have to know; `other`: of a module that is none of ours.
enum class DeviceKind : uint8_t { cpu, cuda, other };

struct Device {
    DeviceKind kind = DeviceKind::cpu;
    int index = 0;
    bool operator==(const Device&) const = default;
};

// bfloat16: the upper half of a float32. Rounds to nearest even; NaN stays NaN.
struct BFloat16 {
    uint16_t bits = 0;

    BFloat16() = default;
    explicit BFloat16(float value) {
        const uint32_t raw = std::bit_cast<uint32_t>(value);
        if ((raw & 0x7fffffffu) > 0x7f800000u) {
            bits = static_cast<uint16_t>((raw >> 16) | 0x40u);
        } else {
            bits = static_cast<uint16_t>((raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16);
        }
    }
    explicit operator float() const {
        return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
};

// IEEE half precision; conversions round to nearest even.
struct Float16 {
    uint16_t bits = 0;

    Float16() = default;
    explicit Float16(float value);
    explicit operator float() const;
};

// Eight bits with four of exponent: no infinities, 448 at most, 0x7f and 0xff are NaN. Rounds to
// nearest even; what lies beyond 448, infinity too, becomes 448. (Micikevicius et al. 2022)
struct Float8E4M3 {
    uint8_t bits = 0;

    Float8E4M3() = default;
    explicit Float8E4M3(float value);
    explicit operator float() const;
};

}  // namespace nvllm
