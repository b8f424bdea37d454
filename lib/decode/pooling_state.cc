// The rows that are read, their mean, and what is made of it.
#include "lib/decode/pooling_state.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace nvllm {
namespace {

// The length that torch uses for a vector of almost 0.
constexpr float kMinLength = 1e-12f;

void normalize(std::vector<float>& vector) {
    double squares = 0.0;
    for (const float value : vector) squares += static_cast<double>(value) * value;
    const float length = std::max(static_cast<float>(std::sqrt(squares)), kMinLength);
    for (float& value : vector) value /= length;
}

void apply(ScoreFunction function, std::vector<float>& values) {
    if (function == ScoreFunction::none) return;
    if (function == ScoreFunction::sigmoid) {
        for (float& value : values) {
            value = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(value))));
        }
        return;
    }
    const double largest = *std::ranges::max_element(values);
    double total = 0.0;
    for (const float value : values) total += std::exp(value - largest);
    for (float& value : values) value = static_cast<float>(std::exp(value - largest) / total);
}

}  // namespace

PoolingState::Run PoolingState::wanted(int32_t first_position, int32_t count, bool ends) const {
    switch (params_.kind) {
        case PoolingKind::last:
            return ends ? Run{count - 1, 1} : Run{};
        case PoolingKind::mean:
            NVLLM_CHECK(first_position == num_rows_, "a mean is of all positions, each once");
            return {0, count};
        case PoolingKind::cls:
            return first_position == 0 ? Run{0, 1} : Run{};
    }
    return {};
}

void PoolingState::add(const ConstTensorView& rows) {
    const std::vector<int32_t>& tokens = params_.token_ids;
    const bool picks = params_.values == PooledValues::tokens;
    const auto width = picks ? tokens.size() : static_cast<size_t>(rows.dim(1));
    sum_.resize(width, 0.0f);
    for (int64_t row = 0; row < rows.dim(0); ++row) {
        const float* values = rows.as<float>() + row * rows.stride(0);
        for (size_t i = 0; i < width; ++i) {
            sum_[i] += values[picks ? static_cast<size_t>(tokens[i]) : i];
        }
    }
    num_rows_ += rows.dim(0);
}

std::vector<float> PoolingState::mean() {
    NVLLM_CHECK(num_rows_ > 0, "no position was read");
    std::vector<float> vector = std::move(sum_);
    for (float& value : vector) value /= static_cast<float>(num_rows_);
    return vector;
}

Result<std::vector<float>> PoolingState::finish(std::vector<float> vector) const {
    if (params_.dimensions) vector.resize(static_cast<size_t>(*params_.dimensions));
    const bool finite =
        std::ranges::all_of(vector, [](float value) { return std::isfinite(value); });
    if (!finite) {
        return Fault{ErrorKind::internal, "the model computed a hidden state that is not a number"};
    }
    if (params_.values != PooledValues::hidden) {
        apply(params_.function, vector);
    } else if (params_.normalize) {
        normalize(vector);
    }
    return vector;
}

}  // namespace nvllm
