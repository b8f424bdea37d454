// SmoothQuant (Xiao et al. 2022): s = max|x|^alpha / max|w|^(1 - alpha), channel by channel.
#include <algorithm>
#include <cmath>

#include "lib/quantize/methods/channel_scales.h"

namespace nvllm::quantize {
namespace {

constexpr float kMinMagnitude = 1e-5f;

}  // namespace

std::vector<float> smoothing_factors(std::span<const BalancedLinear> linears,
                                     std::span<const float> largest_inputs, double strength) {
    std::vector<float> largest_weights(largest_inputs.size(), 0.0f);
    for (const BalancedLinear& linear : linears) {
        const ConstTensorView& weight = linear.weight.view();
        for (int64_t i = 0; i < weight.numel(); ++i) {
            float& largest = largest_weights[static_cast<size_t>(i % weight.dim(1))];
            largest = std::max(largest, std::abs(weight.as<float>()[i]));
        }
    }
    std::vector<float> factors;
    for (size_t i = 0; i < largest_inputs.size(); ++i) {
        if (largest_inputs[i] == 0.0f) {
            factors.push_back(1.0f);
            continue;
        }
        const double input = std::max(largest_inputs[i], kMinMagnitude);
        const double weight = std::max(largest_weights[i], kMinMagnitude);
        factors.push_back(
            static_cast<float>(std::pow(input, strength) / std::pow(weight, 1.0 - strength)));
    }
    return factors;
}

}  // namespace nvllm::quantize
