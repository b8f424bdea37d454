// Arithmetic and conversions of gpu.h, with the errors that a device may make.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/types.h"
#include "tests/kernels/cuda/wrapper_kernels.h"

namespace {

// In the order of wrappers::math_function.
double exact(int which, double x) {
    switch (which) {
        case 0:
            return std::exp2(x);
        case 1:
            return std::exp(x);
        case 2:
            return std::log2(x);
        case 3:
            return std::log(x);
        case 4:
            return 1 / std::sqrt(x);
        default:
            return std::tanh(x);
    }
}

}  // namespace

TEST_CASE("fast functions are near the exact ones") {
    const std::vector<float> x{0.01f, 0.5f, 1.5f, 2.0f, 3.25f, 10.0f};
    for (int which = 0; which < 6; ++which) {
        std::vector<float> out(x.size());
        wrappers::math_function(which, x.data(), out.data(), static_cast<int>(x.size()));
        for (size_t i = 0; i < x.size(); ++i) {
            CAPTURE(which);
            CAPTURE(x[i]);
            const double tolerance = which == 5 ? 1e-3 : 2e-6;  // the device's tanh has 11 bits
            CHECK(out[i] ==
                  doctest::Approx(exact(which, static_cast<double>(x[i]))).epsilon(tolerance));
        }
    }
}

TEST_CASE("exponentials of minus infinity are zero") {
    const std::vector<float> x{-INFINITY, -INFINITY};
    std::vector<float> out(2, 1.0f);
    wrappers::math_function(0, x.data(), out.data(), 1);
    wrappers::math_function(1, x.data(), out.data() + 1, 1);
    CHECK(out == std::vector<float>{0.0f, 0.0f});
}

TEST_CASE("functions of bits") {
    std::vector<uint32_t> out(8);
    // Bytes of a: 16, 255 (-1), 3, 128 (-128) from the low end.
    wrappers::bit_functions(0x8003ff10u, 0x02010304u, 0x00007415u, out.data());
    CHECK(out[0] == 12);
    CHECK(out[1] == 0);
    CHECK(out[2] == 4);
    CHECK(static_cast<int>(out[3]) == 16 * 4 + -1 * 3 + 3 * 1 + -128 * 2 + 0x7415);
    // Selectors from the low end: 5, 1, 4, 7 of the bytes 10 ff 03 80 | 04 03 01 02.
    CHECK(out[4] == 0x0204ff03u);
    CHECK(out[5] == ((0x8003ff10u & 0x02010304u) | 0x00007415u));
    CHECK(out[7] == 0x8003ff10u);

    wrappers::bit_functions(0, 0, 0, out.data());
    CHECK(out[0] == 0);
    CHECK(out[1] == 32);
    CHECK(out[2] == 32);
}

TEST_CASE("the fourth bit of a byte's selector means nothing") {
    std::vector<uint32_t> out(8);
    wrappers::bit_functions(0x80007f01u, 0, 0xba98u, out.data());
    CHECK(out[4] == 0x80007f01u);
}

TEST_CASE("rounding to whole numbers: ties to even, saturation, no NaN") {
    const auto rounded = [](float x) {
        std::vector<uint32_t> out(8);
        wrappers::bit_functions(0, 0, std::bit_cast<uint32_t>(x), out.data());
        return static_cast<int>(out[6]);
    };
    CHECK(rounded(0.5f) == 0);
    CHECK(rounded(1.5f) == 2);
    CHECK(rounded(-2.5f) == -2);
    CHECK(rounded(-2.6f) == -3);
    CHECK(rounded(1e20f) == INT32_MAX);
    CHECK(rounded(-1e20f) == INT32_MIN);
    CHECK(rounded(NAN) == 0);
}

TEST_CASE("conversions round to the nearest value of the type") {
    const std::vector<float> x{0.0f, 1.0f, 1.00390625f, 3.14159f, -0.3f, 1000.0f, 17.0f, 1e-3f};
    const auto count = static_cast<int>(x.size());
    std::vector<float> out(5 * x.size());
    wrappers::conversions(x.data(), out.data(), count);
    for (size_t i = 0; i < x.size(); ++i) {
        CAPTURE(x[i]);
        const auto bfloat = static_cast<float>(nvllm::BFloat16(x[i]));
        const auto half = static_cast<float>(nvllm::Float16(x[i]));
        CHECK(out[i] == bfloat);
        CHECK(out[x.size() + i] == half);
        CHECK(out[3 * x.size() + i] == 2 * bfloat);
        CHECK(out[4 * x.size() + i] == 2 * half);
    }
    // e4m3: three bits after the leading one, 448 the most.
    const float* e4m3 = out.data() + 2 * x.size();
    CHECK(e4m3[0] == 0.0f);
    CHECK(e4m3[1] == 1.0f);
    CHECK(e4m3[3] == 3.25f);
    CHECK(e4m3[4] == -0.3125f);
    CHECK(e4m3[5] == 448.0f);
    CHECK(e4m3[6] == 16.0f);
}
