// AWQ (Lin et al. 2023): channels that see large inputs get larger weights, as far as that makes
// the output's error smaller.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/matmul.h"
#include "lib/model/weights/quantized_matrix.h"
#include "lib/quantize/methods/channel_scales.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kSearchedRowGrain = 4;
// Rows that a candidate is judged by: output channels are many, and alike.
constexpr int64_t kMaxRows = 1024;
constexpr double kMin = 1e-4;
// Ranges are tried down to half of their width.
constexpr int kClipSteps = 10;
constexpr double kClipStep = 0.05;

// Rows at even distances, where each row has scales of its own.
Tensor sampled_rows(const BalancedLinear& linear) {
    const ConstTensorView& weight = linear.weight.view();
    const QuantizationStrategy strategy = linear.arguments->strategy;
    const bool is_by_row =
        strategy == QuantizationStrategy::group || strategy == QuantizationStrategy::channel;
    if (!is_by_row || weight.dim(0) <= kMaxRows) return linear.weight;
    Tensor rows = Tensor::allocate(DType::f32, {kMaxRows, weight.dim(1)});
    for (int64_t i = 0; i < kMaxRows; ++i) {
        std::copy_n(weight.as<float>() + i * weight.dim(0) / kMaxRows * weight.dim(1),
                    weight.dim(1), rows.mutable_view().as<float>() + i * weight.dim(1));
    }
    return rows;
}

// The mean of |w| by the largest of its group, over all rows of all matrices, for each column.
std::vector<double> mean_weights(std::span<const BalancedLinear> linears) {
    std::vector<double> sums;
    int64_t rows = 0;
    for (const BalancedLinear& linear : linears) {
        const ConstTensorView& weight = linear.weight.view();
        const int64_t in = weight.dim(1);
        sums.resize(static_cast<size_t>(in));
        rows += weight.dim(0);
        const bool has_groups = linear.arguments != nullptr && linear.arguments->group_size;
        const int64_t width = has_groups ? *linear.arguments->group_size : in;
        for (int64_t row = 0; row < weight.dim(0); ++row) {
            const float* const values = weight.as<float>() + row * in;
            for (int64_t first = 0; first < in; first += width) {
                const int64_t end = std::min(first + width, in);
                float largest = 1e-6f;
                for (int64_t k = first; k < end; ++k) {
                    largest = std::max(largest, std::abs(values[k]));
                }
                for (int64_t k = first; k < end; ++k) {
                    sums[static_cast<size_t>(k)] += std::abs(values[k]) / largest;
                }
            }
        }
    }
    for (double& sum : sums) sum /= static_cast<double>(rows);
    return sums;
}

std::vector<float> candidate(std::span<const float> inputs, const std::vector<double>& weights,
                             double ratio, bool duo) {
    std::vector<double> factors;
    for (size_t i = 0; i < inputs.size(); ++i) {
        double factor = std::pow(static_cast<double>(inputs[i]), ratio);
        if (duo) factor /= std::pow(weights[i], 1.0 - ratio) + kMin;
        factors.push_back(std::max(factor, kMin));
    }
    const auto [low, high] = std::minmax_element(factors.begin(), factors.end());
    const double middle = std::sqrt(*low * *high);
    std::vector<float> result;
    for (const double factor : factors) result.push_back(static_cast<float>(factor / middle));
    return result;
}

// |(Q(W s) / s - W) x|^2 over |W x|^2.
double scaled_error(const Context& context, const BalancedLinear& linear, const Tensor& rows,
                    std::span<const float> factors) {
    const ConstTensorView& weight = rows.view();
    Tensor kept = Tensor::allocate(DType::f32, {weight.dim(0), weight.dim(1)});
    const TensorView values = kept.mutable_view();
    const auto scale = [&](bool undo) {
        context.threads->parallel_for(
            weight.dim(0), kSearchedRowGrain, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin * weight.dim(1); i < end * weight.dim(1); ++i) {
                    const float factor = factors[static_cast<size_t>(i % weight.dim(1))];
                    values.as<float>()[i] =
                        undo ? values.as<float>()[i] / factor : weight.as<float>()[i] * factor;
                }
            });
    };
    scale(false);
    dequantize(round_to_nearest(values, *linear.arguments, linear.scale_type, *context.threads),
               *context.threads, values);
    scale(true);
    return output_error(context, weight, values, linear.gram).relative();
}

// Relative errors: queries and keys are many times as large as the values beside them, which count
// no less.
double error_of(const Context& context, std::span<const BalancedLinear> linears,
                const std::vector<Tensor>& rows, std::span<const float> factors) {
    double error = 0.0;
    for (size_t i = 0; i < linears.size(); ++i) {
        if (linears[i].arguments == nullptr) continue;
        error += scaled_error(context, linears[i], rows[i], factors);
    }
    return error;
}

// The width among the steps with which one group of one row errs least.
float best_limit(const BalancedLinear& linear, const float* values, int64_t first, int64_t count) {
    ValueRange range;
    for (int64_t k = 0; k < count; ++k) range.add(values[k]);
    const float whole = range.largest_magnitude();
    const int64_t in = linear.gram.dim(0);
    std::vector<double> difference(static_cast<size_t>(count));
    double best = -1.0;
    float best_width = whole;
    for (int step = 0; step <= kClipSteps; ++step) {
        const auto width = static_cast<float>(whole * (1.0 - kClipStep * step));
        const ChosenScale chosen = choose_scale(*linear.arguments, std::max(range.minimum, -width),
                                                std::min(range.maximum, width));
        for (int64_t k = 0; k < count; ++k) {
            const int8_t code =
                quantize_value(*linear.arguments, std::clamp(values[k], -width, width),
                               chosen.scale, chosen.zero_point);
            difference[static_cast<size_t>(k)] =
                static_cast<double>(values[k]) -
                dequantize_code(*linear.arguments, code, chosen.scale, chosen.zero_point);
        }
        double error = 0.0;
        for (int64_t i = 0; i < count; ++i) {
            const float* const moments = linear.gram.as<float>() + (first + i) * in + first;
            double sum = 0.0;
            for (int64_t k = 0; k < count; ++k)
                sum += moments[k] * difference[static_cast<size_t>(k)];
            error += difference[static_cast<size_t>(i)] * sum;
        }
        if (best >= 0.0 && error >= best) continue;
        best = error;
        best_width = width;
    }
    return best_width;
}

}  // namespace

std::vector<float> activation_aware_factors(const Context& context,
                                            std::span<const BalancedLinear> linears,
                                            std::span<const float> mean_inputs,
                                            const ScalingOptions& options) {
    std::vector<Tensor> rows;
    for (const BalancedLinear& linear : linears) {
        rows.push_back(linear.arguments != nullptr ? sampled_rows(linear) : Tensor());
    }
    const std::vector<double> weights = mean_weights(linears);
    std::vector<float> best(mean_inputs.size(), 1.0f);
    double least = error_of(context, linears, rows, best);
    const int64_t last = std::max<int64_t>(options.grid - 1, 1);
    for (int64_t step = 0; step < options.grid; ++step) {
        const double ratio = static_cast<double>(step) / static_cast<double>(last);
        std::vector<float> factors = candidate(mean_inputs, weights, ratio, options.duo_scaling);
        const double error = error_of(context, linears, rows, factors);
        if (!(error < least)) continue;
        least = error;
        best = std::move(factors);
    }
    return best;
}

GroupLimits search_limits(const Context& context, const BalancedLinear& linear) {
    const ConstTensorView& weight = linear.weight.view();
    const int64_t in = weight.dim(1);
    GroupLimits result;
    const bool has_groups = linear.arguments->strategy == QuantizationStrategy::group;
    result.group_columns = has_groups ? *linear.arguments->group_size : in;
    const bool is_by_row =
        has_groups || linear.arguments->strategy == QuantizationStrategy::channel;
    if (!is_by_row || result.group_columns > kWidestClip) return {};
    const int64_t groups = (in + result.group_columns - 1) / result.group_columns;
    result.limits.resize(static_cast<size_t>(weight.dim(0) * groups));
    context.threads->parallel_for(
        weight.dim(0), kSearchedRowGrain, [&](int64_t begin, int64_t end, int) {
            for (int64_t row = begin; row < end; ++row) {
                for (int64_t group = 0; group < groups; ++group) {
                    const int64_t first = group * result.group_columns;
                    const int64_t count = std::min(result.group_columns, in - first);
                    result.limits[static_cast<size_t>(row * groups + group)] =
                        best_limit(linear, weight.as<float>() + row * in + first, first, count);
                }
            }
        });
    return result;
}

}  // namespace nvllm::quantize
