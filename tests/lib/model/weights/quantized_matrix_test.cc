// Scales and codes against values worked out by hand.
#include "lib/model/weights/quantized_matrix.h"

#include <doctest/doctest.h>

#include <cmath>

namespace nvllm {
namespace {

QuantizationArguments arguments_of(const char* preset) {
    return *find_preset_scheme(preset).scheme.weights;
}

TEST_CASE("scales: symmetric integers reach half a step beyond the largest code") {
    const QuantizationArguments w4 = arguments_of("W4A16");
    CHECK(choose_scale(w4, -3.0f, 1.5f).scale == doctest::Approx(3.0 / 7.5));
    CHECK(choose_scale(w4, 0.5f, 1.5f).scale == doctest::Approx(1.5 / 7.5));
    CHECK(choose_scale(arguments_of("W8A8"), -255.0f, 3.0f).scale == doctest::Approx(2.0));
    CHECK(quantize_value(w4, 3.0f, 0.4f) == 7);
    CHECK(quantize_value(w4, -3.0f, 0.4f) == -8);
    CHECK(quantize_value(w4, 0.6f, 0.4f) == 2);  // 1.5 to even
    CHECK(quantize_value(w4, 1.0f, 0.4f) == 2);  // 2.5 to even
}

TEST_CASE("scales: asymmetric integers cover the range, zero included") {
    const QuantizationArguments w4 = arguments_of("W4A16_ASYM");
    const ChosenScale chosen = choose_scale(w4, -1.0f, 2.0f);
    CHECK(chosen.scale == doctest::Approx(0.2));
    CHECK(chosen.zero_point == -3);
    CHECK(quantize_value(w4, -1.0f, chosen.scale, chosen.zero_point) == -8);
    CHECK(quantize_value(w4, 2.0f, chosen.scale, chosen.zero_point) == 7);
    CHECK(dequantize_code(w4, chosen.zero_point, chosen.scale, chosen.zero_point) == 0.0f);
    CHECK(choose_scale(w4, 1.0f, 3.0f).zero_point == -8);
}

TEST_CASE("scales: rounded to the type they are stored in, never zero") {
    const QuantizationArguments w8 = arguments_of("W8A16");
    const float scale = choose_scale(w8, -1.0f, 1.0f, std::nullopt, DType::bf16).scale;
    CHECK(scale == static_cast<float>(BFloat16(1.0f / 127.5f)));
    for (const PresetScheme& preset : preset_schemes()) {
        CAPTURE(preset.name);
        CHECK(choose_scale(*preset.scheme.weights, 0.0f, 0.0f, 1.0f).scale > 0.0f);
    }
}

TEST_CASE("scales: powers of two for MX, E4M3 under one scale of all for NVFP4") {
    const QuantizationArguments mx4 = arguments_of("MXFP4A16");
    CHECK(choose_scale(mx4, 0.0f, 6.0f).scale == 1.0f);
    CHECK(choose_scale(mx4, -6.9f, 0.0f).scale == 1.0f);
    CHECK(choose_scale(mx4, 0.0f, 7.0f).scale == 2.0f);  // 7 is 1.75 * 4
    CHECK(choose_scale(arguments_of("MXFP8A16"), 0.0f, 448.0f).scale == 2.0f);
    CHECK(choose_scale(arguments_of("MXFP8A16"), 0.0f, 447.0f).scale == 1.0f);
    CHECK(choose_global_scale(2688.0f) == 1.0f);
    CHECK(choose_global_scale(0.0f) == 1.0f);
    const QuantizationArguments nv = arguments_of("NVFP4A16");
    CHECK(choose_scale(nv, -6.0f, 1.0f, 17.2f).scale == 18.0f);  // steps of 2 from 16 on
    CHECK(effective_scale(18.0f, 9.0f) == 2.0f);
}

TEST_CASE("E4M3: every number survives, halves go to even, large ones are clamped") {
    for (int bits = 0; bits < 256; ++bits) {
        const auto byte = static_cast<uint8_t>(bits);
        const float value = from_float8(byte);
        if ((byte & 127) == 127) {
            CHECK(std::isnan(value));
        } else {
            CHECK(to_float8(value) == byte);
        }
    }
    CHECK(from_float8(0x7e) == 448.0f);
    CHECK(from_float8(0x01) == 0x1p-9f);
    CHECK(to_float8(1e9f) == 0x7e);
    CHECK(to_float8(17.0f) == to_float8(16.0f));
    CHECK(to_float8(19.0f) == to_float8(20.0f));
    CHECK(to_float8(0x1.8p-9f) == 2);
    CHECK(to_float8(0x1.fp-7f) == 8);
    CHECK(to_float8(NAN) == 0x7f);
}

TEST_CASE("E4M3: rounding in one go is rounding there and back") {
    size_t different = 0;
    for (uint32_t i = 0; i < 1'000'000; ++i) {
        // Every magnitude from 2^-12 to 2^10, halves among them.
        const auto value = std::ldexp(static_cast<float>(1 + i % 4099) / 4096.0f,
                                      static_cast<int>(i / 4099 % 22) - 11) *
                           (i % 2 == 0 ? 1.0f : -1.0f);
        different += rounded_to_float8(value) != from_float8(to_float8(value));
    }
    CHECK(different == 0);
    for (const float value : {0.0f, 448.0f, 1e9f, -1e9f, 0x1p-10f, 0x1.8p-9f, 0x1.fp-7f}) {
        CHECK(rounded_to_float8(value) == from_float8(to_float8(value)));
    }
}

TEST_CASE("E2M1: thresholds between neighbours") {
    const float midpoints[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    const float rounded[] = {0.0f, 1.0f, 1.0f, 2.0f, 2.0f, 4.0f, 4.0f};
    for (size_t i = 0; i < 7; ++i) {
        CHECK(from_float4(to_float4(midpoints[i])) == rounded[i]);
        CHECK(from_float4(to_float4(-midpoints[i])) == -rounded[i]);
        CHECK(from_float4(to_float4(std::nextafter(midpoints[i], 9.0f))) > midpoints[i]);
        CHECK(from_float4(to_float4(std::nextafter(midpoints[i], 0.0f))) < midpoints[i]);
    }
    CHECK(from_float4(to_float4(100.0f)) == 6.0f);
}

TEST_CASE("rounding to nearest: no weight is further off than half a step of its scale") {
    ThreadPool threads(2);
    Tensor weight = Tensor::allocate(DType::f32, {20, 256});
    for (int64_t i = 0; i < weight.view().numel(); ++i) {
        weight.mutable_view().as<float>()[i] =
            std::sin(static_cast<float>(i * i % 1000)) * static_cast<float>(1 + i % 3);
    }
    for (const PresetScheme& preset : preset_schemes()) {
        CAPTURE(preset.name);
        const QuantizationArguments& arguments = *preset.scheme.weights;
        const QuantizedMatrix matrix =
            round_to_nearest(weight.view(), arguments, DType::f32, threads);
        const Tensor back = dequantized(matrix);
        const ScaleIndex index(matrix);
        bool near = true;
        for (int64_t i = 0; i < weight.view().numel(); ++i) {
            const float scale = effective_scale(
                matrix.scales.view().as<float>()[index.at(i / 256, i % 256)], matrix.global_scale);
            // The widest step: of E4M3 32, of E2M1 2 scales; MX cuts off up to a quarter.
            const bool floats = arguments.kind == NumberKind::floating;
            const float step = !floats ? 1.0f : arguments.bits == 8 ? 64.0f : 3.0f;
            near &= std::fabs(back.view().as<float>()[i] - weight.view().as<float>()[i]) <=
                    step * scale * 0.5001f;
        }
        CHECK(near);
    }
}

TEST_CASE("shapes of scales follow the strategy") {
    QuantizationArguments arguments = arguments_of("FP8_BLOCK");
    CHECK(scale_shape(arguments, 200, 300) == ScaleShape{2, 3});
    CHECK(scale_shape(arguments_of("FP8"), 200, 300) == ScaleShape{1, 1});
    CHECK(scale_shape(arguments_of("W8A8"), 200, 300) == ScaleShape{200, 1});
    CHECK(scale_shape(arguments_of("W4A16"), 200, 300) == ScaleShape{200, 3});
}

}  // namespace
}  // namespace nvllm
