// Slow, obvious versions of the ops in double precision, which every backend is compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/ops/activation.h"
#include "kernels/ops/attention.h"

namespace reference {

using Values = std::vector<double>;

inline Values rms_norm(const Values& x, const Values& weight, double epsilon,
                       double weight_offset) {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double root = std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
    Values out(x.size());
    for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] / root * (weight[i] + weight_offset);
    return out;
}

inline Values layer_norm(const Values& x, const Values& weight, const Values& bias,
                         double epsilon) {
    const auto count = static_cast<double>(x.size());
    double mean = 0;
    for (const double value : x) mean += value / count;
    double variance = 0;
    for (const double value : x) variance += (value - mean) * (value - mean) / count;
    Values out(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
        out[i] = (x[i] - mean) / std::sqrt(variance + epsilon) * weight[i] + bias[i];
    }
    return out;
}

inline double activation(nvllm::ops::Activation function, double x) {
    switch (function) {
        case nvllm::ops::Activation::silu:
            return x / (1 + std::exp(-x));
        case nvllm::ops::Activation::gelu:
            return x / 2 * std::erfc(-x / std::sqrt(2.0));
        case nvllm::ops::Activation::gelu_tanh: {
            const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
            return x / (1 + std::exp(-2 * inner));
        }
        case nvllm::ops::Activation::relu:
            return std::max(x, 0.0);
        case nvllm::ops::Activation::sigmoid:
            return 1 / (1 + std::exp(-x));
        case nvllm::ops::Activation::identity:
            return x;
    }
    return 0;
}

// Sum of products, and the sum of their magnitudes, by which rounding errors are measured.
struct Dot {
    double sum = 0;
    double magnitude = 0;
    void add(double a, double b) {
        sum += a * b;
        magnitude += std::abs(a * b);
    }
};

// The positions that a query of a sequence of this length sees: [first, end).
struct Seen {
    int64_t first;
    int64_t end;
};
inline Seen seen_from(const nvllm::ops::PagedAttentionOptions& options, int64_t position,
                      int64_t length) {
    if (options.chunk > 0) return {position - position % options.chunk, position + 1};
    const int64_t window = options.window > 0 ? options.window : length;
    return {std::max<int64_t>(0, position + 1 - window),
            options.causal ? position + 1 : std::min(length, position + window)};
}

// What joins the score of a position for a query of this head.
inline double position_bias(const nvllm::ops::PagedAttentionOptions& options, int64_t head,
                            int64_t query, int64_t position) {
    const nvllm::ConstTensorView& bias = options.position_bias;
    if (bias.data == nullptr) return 0;
    const int64_t reach = bias.dim(1) / 2;
    const int64_t column = reach + std::clamp(position - query, -reach, reach);
    return bias.as<float>()[head * bias.dim(1) + column];
}

// What attention() hides beside positions before the first, and what joins its denominator.
struct Masks {
    double sink = -std::numeric_limits<double>::infinity();
    std::function<double(int64_t)> bias = [](int64_t) { return 0.0; };  // of positions
    std::function<bool(int64_t)> sees = [](int64_t) { return true; };   // of positions
};

// Attention of one query head over `count` positions, of which [first, count) are visible. key(p,
// d), value(p, d).
template <typename Key, typename Value>
Values attention(const Values& query, Key key, Value value, int64_t first, int64_t count,
                 const nvllm::ops::PagedAttentionOptions& options, const Masks& masks = {}) {
    Values scores;
    double most = masks.sink;
    for (int64_t p = first; p < count; ++p) {
        double score = 0;
        for (size_t d = 0; d < query.size(); ++d)
            score += query[d] * key(p, static_cast<int64_t>(d));
        score = score * options.scale + masks.bias(p);
        if (options.soft_cap > 0) score = options.soft_cap * std::tanh(score / options.soft_cap);
        if (!masks.sees(p)) score = -std::numeric_limits<double>::infinity();
        scores.push_back(score);
        most = std::max(most, score);
    }
    Values out(query.size());
    double denominator = std::exp(masks.sink - most);
    for (const double score : scores) denominator += std::exp(score - most);
    for (int64_t p = first; p < count; ++p) {
        const double weight = std::exp(scores[static_cast<size_t>(p - first)] - most) / denominator;
        for (size_t d = 0; d < out.size(); ++d)
            out[d] += weight * value(p, static_cast<int64_t>(d));
    }
    return out;
}

}  // namespace reference
