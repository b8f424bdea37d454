// Dynamic and static rounding of activations.
#include "kernels/cpu/quantized/quantize_activations.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/small_floats.h"

namespace nvllm::cpu {
namespace {

using Code = ops::ActivationFormat;

// To nearest even, for magnitudes below 2^22: adding makes the unit the last bit.
float rounded(float x) {
    constexpr float shift = 0x1.8p23f;
    return (x + shift) - shift;
}

float half_range(Code code) {
    switch (code) {
        case Code::int8:
            return 127.5f;
        case Code::int4:
            return 7.5f;
        case Code::float8:
            return kLargestFloat8;
        default:
            return kLargestFloat4;
    }
}

// A row of zeros has any scale; one with a value that is no number has none, and nor have its
// products.
float scale_of(const ops::ActivationRounding& rounding, const float* x, int64_t count,
               float least) {
    const float of_x = kernels().magnitude(x, count);
    if (std::isnan(of_x)) return of_x;
    if (std::isnan(least)) return least;
    const float largest = std::max(of_x, least);
    if (rounding.scale > 0.0f) return rounding.scale;
    if (rounding.powers_of_two) {
        return choose_power_of_two(largest, rounding.code == Code::float4);
    }
    float scale = largest / half_range(rounding.code);
    if (rounding.global_scale > 0.0f) scale = from_float8(to_float8(scale * rounding.global_scale));
    return scale > 0.0f ? scale : 1.0f;
}

// values = round(x / scale) * factor
template <typename Round>
void round_each(Round round, const float* x, int64_t count, float scale, float factor,
                float* values) {
    for (int64_t i = 0; i < count; ++i) values[i] = round(x[i] / scale) * factor;
}

void round_group(Code code, const float* x, int64_t count, float scale, float factor,
                 float* values) {
    switch (code) {
        case Code::int8:
            return round_each([](float v) { return rounded(std::clamp(v, -128.0f, 127.0f)); }, x,
                              count, scale, factor, values);
        case Code::int4:
            return round_each([](float v) { return rounded(std::clamp(v, -8.0f, 7.0f)); }, x, count,
                              scale, factor, values);
        case Code::float8:
            return round_each(rounded_to_float8, x, count, scale, factor, values);
        default:
            return round_each([](float v) { return from_float4(to_float4(v)); }, x, count, scale,
                              factor, values);
    }
}

bool has_exact_scales(const ops::ActivationRounding& rounding) {
    return rounding.powers_of_two || rounding.global_scale > 0.0f;
}

}  // namespace

// Scales that are powers of two or E4M3 go into the values, exactly.
int64_t num_activation_scales(const ops::ActivationRounding& rounding, int64_t in) {
    if (rounding.group_size == 0 || has_exact_scales(rounding)) return 1;
    return (in + rounding.group_size - 1) / rounding.group_size;
}

bool has_row_scale(const ops::ActivationRounding& rounding) {
    return rounding.group_size == 0 || has_exact_scales(rounding);
}

void round_activations(const ops::ActivationRounding& rounding, const float* x, int64_t in,
                       float least, float* values, float* scales) {
    const bool exact = has_exact_scales(rounding);
    const int64_t group_size = rounding.group_size == 0 ? in : rounding.group_size;
    const float divisor = rounding.global_scale > 0.0f ? rounding.global_scale : 1.0f;
    for (int64_t begin = 0; begin < in; begin += group_size) {
        const int64_t end = std::min(begin + group_size, in);
        const float scale = scale_of(rounding, x + begin, end - begin, least);
        const float inside = exact ? scale : 1.0f;
        round_group(rounding.code, x + begin, end - begin, scale / divisor, inside, values + begin);
        if (!exact) scales[begin / group_size] = scale;
    }
    if (exact) scales[0] = 1.0f / divisor;
}

void round_to_integers(const ops::ActivationRounding& rounding, const float* x, int64_t in,
                       float least, int8_t* codes, float* scale) {
    *scale = scale_of(rounding, x, in, least);
    const bool is_int4 = rounding.code == Code::int4;
    kernels().round_i8(x, *scale, is_int4 ? -8.0f : -128.0f, is_int4 ? 7.0f : 127.0f, codes, in);
}

}  // namespace nvllm::cpu
