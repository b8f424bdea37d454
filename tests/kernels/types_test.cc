// Tests of element types and their scalar conversions.
#include "kernels/types.h"

#include <cmath>

#include "testing.h"

using nvllm::BFloat16;
using nvllm::DType;
using nvllm::Float16;
using nvllm::Float8E4M3;

TEST_CASE("names of element types") {
    CHECK(nvllm::dtype_from_name("bfloat16") == DType::bf16);
    CHECK(nvllm::dtype_from_name("half") == DType::f16);
    CHECK(nvllm::dtype_from_name("float") == DType::f32);
    CHECK(nvllm::dtype_from_name("fp32") == DType::f32);
    CHECK(nvllm::dtype_from_name("fp16") == DType::f16);
    CHECK(nvllm::dtype_from_name("bf16") == DType::bf16);
    CHECK(!nvllm::dtype_from_name("complex"));
    CHECK(nvllm::dtype_bytes(DType::f16) == 2);
}

TEST_CASE("all float16 values survive a round trip") {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        Float16 half;
        half.bits = static_cast<uint16_t>(bits);
        const auto value = static_cast<float>(half);
        if (std::isnan(value)) {
            REQUIRE(std::isnan(static_cast<float>(Float16(value))));
        } else {
            REQUIRE(Float16(value).bits == bits);
        }
    }
}

TEST_CASE("all float8 values survive a round trip and lie in their order") {
    float before = -0.001f;
    for (uint32_t bits = 0; bits < 0x80; ++bits) {
        Float8E4M3 value;
        value.bits = static_cast<uint8_t>(bits);
        const auto wide = static_cast<float>(value);
        if (bits == 0x7f) {
            CHECK(std::isnan(wide));
            CHECK(Float8E4M3(wide).bits == 0x7f);
            continue;
        }
        CHECK(wide > before);
        before = wide;
        CHECK(Float8E4M3(wide).bits == bits);
        CHECK(Float8E4M3(-wide).bits == (bits | 0x80u));
    }
    CHECK(before == 448.0f);
}

TEST_CASE("float8 rounds to nearest even and ends at 448") {
    CHECK(static_cast<float>(Float8E4M3(1.0625f)) == 1.0f);   // half way, even below
    CHECK(static_cast<float>(Float8E4M3(1.1875f)) == 1.25f);  // half way, even above
    CHECK(static_cast<float>(Float8E4M3(0x1p-10f)) == 0.0f);  // half of the smallest
    CHECK(static_cast<float>(Float8E4M3(0x3p-10f)) == 0x1p-8f);
    CHECK(static_cast<float>(Float8E4M3(1e9f)) == 448.0f);
    CHECK(static_cast<float>(Float8E4M3(-INFINITY)) == -448.0f);
}

TEST_CASE("conversions round to nearest even") {
    CHECK(static_cast<float>(BFloat16(1.00390625f)) == 1.0f);       // half way, even below
    CHECK(static_cast<float>(BFloat16(1.01171875f)) == 1.015625f);  // half way, even above
    CHECK(static_cast<float>(BFloat16(1.003907f)) == 1.0078125f);
    CHECK(static_cast<float>(Float16(2049.0f)) == 2048.0f);
    CHECK(static_cast<float>(Float16(2051.0f)) == 2052.0f);
    CHECK(std::isinf(static_cast<float>(Float16(65520.0f))));
    CHECK(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
}
