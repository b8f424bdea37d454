// Scaling of channels: what one side is divided by, the other is multiplied with, so that the model
// stays what it was and its matrices become easier to round.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "lib/quantize/block_solution.h"

namespace nvllm::quantize {

// Largest magnitudes of the groups of a matrix: [out, groups].
struct GroupLimits {
    int64_t group_columns = 0;
    std::vector<float> limits;
};

// What becomes of the linears (by index) of one block, and of the norms before them.
struct ChannelScaling {
    std::map<size_t, std::vector<float>> columns;  // factors of columns
    std::map<size_t, std::vector<float>> rows;     // divisors of rows
    std::map<size_t, GroupLimits> limits;
    std::vector<NamedTensor> norms;
};

// By all modifiers of the recipe that scale, in their order.
ChannelScaling scale_channels(const BlockTask& task, const std::vector<size_t>& linears);

void clip_groups(const GroupLimits& limits, const TensorView& weight);

// One matrix whose columns are to be scaled, as it is so far.
struct BalancedLinear {
    Tensor weight;  // float32 [out, in]
    ConstTensorView gram;
    const QuantizationArguments* arguments = nullptr;  // null: it is not rounded
    DType scale_type = DType::f32;
};

// SmoothQuant (Xiao et al. 2022): factors that move a share of the largest inputs into the weights.
std::vector<float> smoothing_factors(std::span<const BalancedLinear> linears,
                                     std::span<const float> largest_inputs, double strength);
// AWQ (Lin et al. 2023): of a grid of factors from the weights' magnitudes alone to the inputs'
// alone those with the least relative error of the outputs, summed over the linears; ones when none
// is better than no scaling.
std::vector<float> activation_aware_factors(const Context& context,
                                            std::span<const BalancedLinear> linears,
                                            std::span<const float> mean_inputs,
                                            const ScalingOptions& options);
// AWQ's search of ranges: each group of a row as wide as its output's error is least. Empty limits
// where groups are wider than kWidestClip or not of rows.
GroupLimits search_limits(const Context& context, const BalancedLinear& linear);
inline constexpr int64_t kWidestClip = 256;

}  // namespace nvllm::quantize
