// Tests of the choice of instruction set and of the conversions that each of them has.
#include "kernels/cpu/dispatch/isa.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/error.h"
#include "testing.h"

namespace cpu = nvllm::cpu;

TEST_CASE("every machine has the scalar kernels, and names are distinct") {
    CHECK(cpu::isa_supported(cpu::Isa::scalar));
    CHECK(std::string(cpu::isa_name(cpu::Isa::avx512bf16)) == "avx512bf16");
    int count = 0;
    testing::for_each_isa([&](cpu::Isa isa) {
        CHECK(cpu::current_isa() == isa);
        ++count;
    });
    CHECK(count >= 2);
}

TEST_CASE("every instruction set converts as the scalar types do") {
    std::vector<float> values = testing::Random(1).values(5000, 3.0f);
    for (float scale = 1e-45f; scale < 1e38f; scale *= 7) values.push_back(scale);
    for (const float special :
         {0.0f, -0.0f, 65504.0f, 65519.9f, 65520.0f, -65520.0f, 3.3e38f, 6e-8f, 3e-8f,
          std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
        values.push_back(special);
    }
    const auto count = static_cast<int64_t>(values.size());
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (size_t type = 0; type < cpu::kNumFloatTypes; ++type) {
            constexpr nvllm::DType types[] = {nvllm::DType::f32, nvllm::DType::bf16,
                                              nvllm::DType::f16};
            const testing::Buffer expected(types[type], values);
            testing::Buffer narrowed(types[type], count);
            std::vector<float> widened(values.size());
            cpu::kernels().narrow[type](values.data(), narrowed.view({count}).data, count);
            cpu::kernels().upcast[type](narrowed.view({count}).data, 1.0f, widened.data(), count);
            for (int64_t i = 0; i < count; ++i) {
                REQUIRE(testing::close(narrowed[i], expected[i], 0));
                REQUIRE(testing::close(widened[static_cast<size_t>(i)], expected[i], 0));
            }
        }
    });
}

TEST_CASE("every instruction set converts to and from float8 as the scalar type does") {
    std::vector<float> values = testing::Random(2).values(5000, 500.0f);
    for (float scale = 1e-6f; scale < 1e4f; scale *= 1.13f) values.push_back(-scale);
    for (int bits = 0; bits < 256; ++bits) {
        const auto value =
            static_cast<float>(std::bit_cast<nvllm::Float8E4M3>(static_cast<uint8_t>(bits)));
        values.insert(values.end(),
                      {value, value * 1.0625f, std::nextafter(value * 1.0625f, 0.0f)});
    }
    values.insert(values.end(), {std::numeric_limits<float>::infinity(), 448.01f, 1e30f, -464.0f});
    const auto count = static_cast<int64_t>(values.size());
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        std::vector<nvllm::Float8E4M3> narrowed(values.size());
        std::vector<float> widened(values.size());
        cpu::kernels().narrow_f8(values.data(), 1.0f, narrowed.data(), count);
        cpu::kernels().attention[static_cast<size_t>(cpu::KvType::f8_e4m3)].load_keys(
            {narrowed.data(), narrowed.data(), count, 1, count, widened.data(), count});
        for (size_t i = 0; i < values.size(); ++i) {
            REQUIRE(narrowed[i].bits == nvllm::Float8E4M3(values[i]).bits);
            REQUIRE(testing::close(widened[i], static_cast<float>(narrowed[i]), 0));
        }
    });
}

TEST_CASE("the largest magnitude of a row, which is none where a value is no number") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (int64_t count = 1; count < 70; ++count) {
            std::vector<float> row = testing::Random(3).values(count);
            const auto last = static_cast<size_t>(count - 1);
            row[last] = -2.5f;
            CHECK(cpu::kernels().magnitude(row.data(), count) == 2.5f);
            row[last / 2] = std::numeric_limits<float>::infinity();
            CHECK(std::isnan(cpu::kernels().magnitude(row.data(), count)));
            row[last / 2] = std::nanf("");
            CHECK(std::isnan(cpu::kernels().magnitude(row.data(), count)));
        }
    });
}
