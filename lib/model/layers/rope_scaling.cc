// Length scaling of rotary embeddings. Frequencies are computed in float32 step by step as the
// reference does, because angles at far positions magnify every rounding.
#include "lib/model/layers/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/error.h"

namespace nvllm {
namespace {

// base^(2i / rotary), i = 0 .. rotary / 2.
std::vector<float> wavelengths(double base, int64_t rotary) {
    std::vector<float> values;
    for (int64_t i = 0; i < rotary; i += 2) {
        const float exponent = static_cast<float>(i) / static_cast<float>(rotary);
        values.push_back(std::pow(static_cast<float>(base), exponent));
    }
    return values;
}

std::vector<float> plain_frequencies(double base, int64_t rotary) {
    std::vector<float> values = wavelengths(base, rotary);
    for (float& value : values) value = 1.0f / value;
    return values;
}

// "NTK-aware" interpolation that grows with the length.
std::vector<float> dynamic_frequencies(const RopeConfig& rope, int64_t rotary,
                                       int64_t max_positions, int64_t max_model_len) {
    const double length = static_cast<double>(std::max(max_model_len, max_positions));
    const double k_block =
        rope.factor * length / static_cast<double>(max_positions) - (rope.factor - 1.0);
    const double exponent = static_cast<double>(rotary) / static_cast<double>(rotary - 2);
    return plain_frequencies(rope.theta * std::pow(k_block, exponent), rotary);
}

// Llama 3.1: short waves stay, long ones are stretched, those between are blended.
std::vector<float> llama3_frequencies(const RopeConfig& rope, int64_t rotary,
                                      int64_t max_positions) {
    const auto original = static_cast<float>(
        rope.original_max_positions > 0 ? rope.original_max_positions : max_positions);
    const auto factor = static_cast<float>(rope.factor);
    const auto low = static_cast<float>(rope.low_frequency_factor);
    const auto high = static_cast<float>(rope.high_frequency_factor);
    std::vector<float> values = plain_frequencies(rope.theta, rotary);
    for (float& value : values) {
        const float wavelength = 2.0f * std::numbers::pi_v<float> / value;
        if (wavelength > original / low) {
            value /= factor;
        } else if (!(wavelength < original / high)) {
            const float smooth = (original / wavelength - low) / (high - low);
            value = (1.0f - smooth) * value / factor + smooth * value;
        }
    }
    return values;
}

// The dimension whose wave turns `rotations` times over the original positions. (Peng et al. 2023,
// YaRN)
double yarn_dimension(const RopeConfig& rope, double rotations, int64_t rotary, double original) {
    return static_cast<double>(rotary) * std::log(original / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
}

std::vector<float> yarn_frequencies(const RopeConfig& rope, int64_t rotary, double original) {
    double low = yarn_dimension(rope, rope.beta_fast, rotary, original);
    double high = yarn_dimension(rope, rope.beta_slow, rotary, original);
    if (rope.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(rotary - 1));
    if (low == high) high += 0.001;

    std::vector<float> values = wavelengths(rope.theta, rotary);
    for (size_t i = 0; i < values.size(); ++i) {
        const float ramp = std::clamp(
            (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low),
            0.0f, 1.0f);
        const float kept = 1.0f - ramp;
        const float interpolated = 1.0f / (static_cast<float>(rope.factor) * values[i]);
        values[i] = interpolated * (1.0f - kept) + 1.0f / values[i] * kept;
    }
    return values;
}

double yarn_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const RopeConfig& rope) {
    if (rope.attention_factor) return *rope.attention_factor;
    const double mscale = rope.mscale.value_or(0.0);
    const double all_dim = rope.mscale_all_dim.value_or(0.0);
    if (mscale != 0.0 && all_dim != 0.0) {
        return yarn_mscale(rope.factor, mscale) / yarn_mscale(rope.factor, all_dim);
    }
    return yarn_mscale(rope.factor, 1.0);
}

}  // namespace

double latent_score_factor(const RopeConfig& rope) {
    if (rope.kind != "yarn" || rope.mscale_all_dim.value_or(0.0) == 0.0) return 1.0;
    const double scale = yarn_mscale(rope.factor, *rope.mscale_all_dim);
    return scale * scale;
}

namespace {

// (Ding et al. 2024, LongRoPE)
std::vector<float> longrope_frequencies(const RopeConfig& rope, int64_t rotary,
                                        const std::vector<double>& factors) {
    std::vector<float> values = wavelengths(rope.theta, rotary);
    NVLLM_CHECK(factors.size() == values.size(), "factors were counted with the config");
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = 1.0f / (static_cast<float>(factors[i]) * values[i]);
    }
    return values;
}

double longrope_attention_factor(const RopeConfig& rope, int64_t original) {
    if (rope.attention_factor) return *rope.attention_factor;
    if (rope.factor <= 1.0) return 1.0;
    return std::sqrt(1.0 + std::log(rope.factor) / std::log(static_cast<double>(original)));
}

// As of the whole head, of which the last dimensions are turned by nothing (Gemma 4).
std::vector<float> proportional_frequencies(const RopeConfig& rope, int64_t head_dim) {
    const auto rotated =
        static_cast<size_t>(rope.partial_rotary_factor * static_cast<double>(head_dim) / 2.0);
    std::vector<float> values = plain_frequencies(rope.theta, head_dim);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = i < rotated ? values[i] / static_cast<float>(rope.factor) : 0.0f;
    }
    return values;
}

int64_t original_positions(const RopeConfig& rope, int64_t max_positions) {
    return rope.original_max_positions > 0 ? rope.original_max_positions : max_positions;
}

}  // namespace

int64_t original_context(const RopeConfig& rope, int64_t max_positions, int64_t max_model_len) {
    const int64_t original = original_positions(rope, max_positions);
    return rope.kind == "longrope" && max_model_len > original ? original : 0;
}

namespace {

RopeFrequencies frequencies_of(const RopeConfig& rope, int64_t head_dim, int64_t max_positions,
                               int64_t max_model_len) {
    const auto rotary =
        static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor);
    const int64_t original = original_positions(rope, max_positions);
    if (rope.kind == "proportional") return {proportional_frequencies(rope, head_dim)};
    if (rope.kind == "linear") {
        std::vector<float> values = plain_frequencies(rope.theta, rotary);
        for (float& value : values) value /= static_cast<float>(rope.factor);
        return {std::move(values)};
    }
    if (rope.kind == "dynamic" && rope.alpha) {
        const double exponent = static_cast<double>(rotary) / static_cast<double>(rotary - 2);
        return {plain_frequencies(rope.theta * std::pow(*rope.alpha, exponent), rotary)};
    }
    if (rope.kind == "dynamic") {
        return {dynamic_frequencies(rope, rotary, max_positions, max_model_len)};
    }
    if (rope.kind == "llama3") return {llama3_frequencies(rope, rotary, max_positions)};
    if (rope.kind == "yarn") {
        return {yarn_frequencies(rope, rotary, static_cast<double>(original)),
                static_cast<float>(yarn_attention_factor(rope))};
    }
    if (rope.kind == "longrope") {
        const auto factor = static_cast<float>(longrope_attention_factor(rope, original));
        std::vector<float> within = longrope_frequencies(rope, rotary, rope.short_factor);
        if (max_model_len <= original) return {std::move(within), factor};
        return {longrope_frequencies(rope, rotary, rope.long_factor), factor, std::move(within)};
    }
    NVLLM_CHECK(rope.kind == "default", "kinds are checked with the config");
    return {plain_frequencies(rope.theta, rotary)};
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeConfig& rope, int64_t head_dim, int64_t max_positions,
                                 int64_t max_model_len) {
    RopeFrequencies frequencies = frequencies_of(rope, head_dim, max_positions, max_model_len);
    frequencies.query_beta = static_cast<float>(rope.query_beta);
    frequencies.original_positions = original_positions(rope, max_positions);
    return frequencies;
}

}  // namespace nvllm
