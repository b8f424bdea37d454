// Factors of channels on a layer whose inputs have outliers: each method serves its own criterion.
#include "lib/quantize/methods/channel_scales.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/linalg.h"
#include "kernels/random.h"
#include "lib/model/weights/quantized_matrix.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kOut = 40, kIn = 64, kTokens = 300;

float uniform(uint64_t seed, int64_t index) {
    const RandomWords words = random_words({{static_cast<uint32_t>(index), 0, 0, 11}}, seed);
    return static_cast<float>(2.0 * unit_interval(words.words[0], words.words[1]) - 1.0);
}

// One channel of each group is thirty times as large as the others.
bool is_outlier(int64_t channel) { return channel % 32 == 3; }

struct Layer {
    ThreadPool threads{2};
    ScratchArena scratch;
    Context context;
    QuantizationArguments arguments;
    std::vector<BalancedLinear> linears;
    Tensor x = Tensor::allocate(DType::f32, {kTokens, kIn});
    Tensor gram = Tensor::allocate(DType::f32, {kIn, kIn});
    std::vector<float> mean_inputs, largest_inputs;

    Layer() {
        context.scratch = &scratch;
        context.threads = &threads;
        arguments.bits = 4;
        arguments.strategy = QuantizationStrategy::group;
        arguments.group_size = 32;
        mean_inputs.resize(kIn);
        largest_inputs.resize(kIn);
        for (int64_t i = 0; i < kTokens * kIn; ++i) {
            const float value = uniform(1, i) * (is_outlier(i % kIn) ? 30.0f : 1.0f);
            x.mutable_view().as<float>()[i] = value;
            const auto channel = static_cast<size_t>(i % kIn);
            mean_inputs[channel] += std::abs(value) / kTokens;
            largest_inputs[channel] = std::max(largest_inputs[channel], std::abs(value));
        }
        ops::add_gram(context, x.view(), DType::f32, gram.mutable_view());
        ops::mirror_lower(context, gram.mutable_view());
        for (const uint64_t seed : {2u, 3u}) {
            BalancedLinear linear;
            linear.weight = Tensor::allocate(DType::f32, {kOut, kIn});
            for (int64_t i = 0; i < kOut * kIn; ++i) {
                // Weights of such channels are smaller than others, as training makes them.
                const float tails =
                    uniform(seed, 4 * i) + uniform(seed, 4 * i + 1) + uniform(seed, 4 * i + 2);
                linear.weight.mutable_view().as<float>()[i] =
                    tails * (is_outlier(i % kIn) ? 0.3f : 1.0f);
            }
            linear.gram = gram.view();
            linear.arguments = &arguments;
            linears.push_back(linear);
        }
    }

    // Of both matrices, rounded after scaling and clipping.
    double error(const std::vector<float>& factors, const std::vector<GroupLimits>& limits = {}) {
        double sum = 0.0;
        for (size_t i = 0; i < linears.size(); ++i) {
            Tensor kept = Tensor::allocate(DType::f32, {kOut, kIn});
            const TensorView values = kept.mutable_view();
            const float* const weight = linears[i].weight.view().as<float>();
            for (int64_t k = 0; k < kOut * kIn; ++k) {
                values.as<float>()[k] = weight[k] * factors[static_cast<size_t>(k % kIn)];
            }
            if (!limits.empty()) clip_groups(limits[i], values);
            dequantize(round_to_nearest(values, arguments, DType::f32, *context.threads),
                       *context.threads, values);
            for (int64_t k = 0; k < kOut * kIn; ++k) {
                values.as<float>()[k] /= factors[static_cast<size_t>(k % kIn)];
            }
            sum += output_error(context, linears[i].weight.view(), kept.view(), gram.view()).error;
        }
        return sum;
    }
};

TEST_CASE("awq's factors make the output's error smaller than plain rounding's") {
    Layer layer;
    const std::vector<float> ones(kIn, 1.0f);
    for (const bool duo : {true, false}) {
        ScalingOptions options;
        options.duo_scaling = duo;
        const std::vector<float> factors =
            activation_aware_factors(layer.context, layer.linears, layer.mean_inputs, options);
        INFO("plain ", layer.error(ones), " scaled ", layer.error(factors));
        CHECK(layer.error(factors) < 0.6 * layer.error(ones));
        // Channels with larger inputs have larger factors.
        CHECK(factors[3] > factors[4]);
    }
}

TEST_CASE("awq's factors do not depend on how large one matrix is beside another") {
    const auto factors_with = [](float size) {
        Layer layer;
        // The second has no small weights where inputs are large: it wants other factors.
        for (int64_t i = 0; i < kOut * kIn; ++i) {
            float& weight = layer.linears[1].weight.mutable_view().as<float>()[i];
            weight *= size * (is_outlier(i % kIn) ? 30.0f : 1.0f);
        }
        return activation_aware_factors(layer.context, layer.linears, layer.mean_inputs, {});
    };
    const std::vector<float> factors = factors_with(1.0f);
    CHECK(factors == factors_with(256.0f));
    CHECK(factors == factors_with(1.0f / 256.0f));
}

TEST_CASE("awq tries factors of the inputs alone") {
    Layer layer;
    ScalingOptions options;
    options.duo_scaling = false;
    options.grid = 2;  // no scaling, and as much as the inputs differ
    const std::vector<float> factors =
        activation_aware_factors(layer.context, layer.linears, layer.mean_inputs, options);
    CHECK(factors[3] / factors[4] ==
          doctest::Approx(layer.mean_inputs[3] / layer.mean_inputs[4]).epsilon(1e-4));
}

TEST_CASE("a searched range errs no more than the whole one") {
    Layer layer;
    const std::vector<float> ones(kIn, 1.0f);
    std::vector<GroupLimits> limits;
    for (const BalancedLinear& linear : layer.linears) {
        limits.push_back(search_limits(layer.context, linear));
        REQUIRE(limits.back().limits.size() == static_cast<size_t>(kOut * kIn / 32));
    }
    // Groups are judged one by one, their sum not: it must not be worse by more than chance.
    CHECK(layer.error(ones, limits) < layer.error(ones));
}

float largest_weight(const Layer& layer, int64_t channel) {
    float largest = 0.0f;
    for (const BalancedLinear& linear : layer.linears) {
        for (int64_t row = 0; row < kOut; ++row) {
            largest =
                std::max(largest, std::abs(linear.weight.view().as<float>()[row * kIn + channel]));
        }
    }
    return largest;
}

TEST_CASE("smoothing makes inputs and weights of a channel equally large, or one of them 1") {
    Layer layer;
    const auto factors = [&](double strength) {
        return smoothing_factors(layer.linears, layer.largest_inputs, strength);
    };
    const std::vector<float> half = factors(0.5), none = factors(0.0), all = factors(1.0);
    for (size_t channel = 0; channel < half.size(); ++channel) {
        const float weight = largest_weight(layer, static_cast<int64_t>(channel));
        const float input = layer.largest_inputs[channel];
        CHECK(input / half[channel] == doctest::Approx(weight * half[channel]).epsilon(1e-4));
        CHECK(none[channel] * weight == doctest::Approx(1.0));
        CHECK(all[channel] == doctest::Approx(input));
    }
}

// The sum of squared errors of activations rounded to 8 bits by one scale a token.
double rounding_error(const Layer& layer, const std::vector<float>& factors) {
    double sum = 0.0, whole = 0.0;
    for (int64_t token = 0; token < kTokens; ++token) {
        const float* const row = layer.x.view().as<float>() + token * kIn;
        float largest = 0.0f;
        for (size_t k = 0; k < kIn; ++k) largest = std::max(largest, std::abs(row[k] / factors[k]));
        for (size_t k = 0; k < kIn; ++k) {
            const float scale = largest / 127.0f;
            const float kept = std::nearbyint(row[k] / factors[k] / scale) * scale * factors[k];
            sum += std::pow((kept - row[k]) / layer.largest_inputs[k], 2.0);
            whole += std::pow(row[k] / layer.largest_inputs[k], 2.0);
        }
    }
    return sum / whole;
}

TEST_CASE("smoothed inputs lose less when they are rounded") {
    Layer layer;
    const std::vector<float> factors = smoothing_factors(layer.linears, layer.largest_inputs, 0.5);
    CHECK(rounding_error(layer, factors) <
          0.3 * rounding_error(layer, std::vector<float>(kIn, 1.0f)));
}

}  // namespace
}  // namespace nvllm::quantize
