// Tests of the choice of instruction set and of the conversions that each of them has.
#include "kernels/cpu/isa.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "kernels/cpu/kernels.h"
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
    CHECK(count >= 1);
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
            cpu::kernels().widen[type](narrowed.view({count}).data, 1.0f, widened.data(), count);
            for (int64_t i = 0; i < count; ++i) {
                REQUIRE(testing::close(narrowed[i], expected[i], 0));
                REQUIRE(testing::close(widened[static_cast<size_t>(i)], expected[i], 0));
            }
        }
    });
}
