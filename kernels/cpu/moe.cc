// Layers of experts on the CPU.
#include "kernels/ops/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/simd/rows.h"
#include "kernels/host/thread_pool.h"

namespace nvllm::cpu {
namespace {

constexpr int64_t kRowGrain = 16;

void softmax(float* values, int64_t count) {
    const float largest = *std::max_element(values, values + count);
    float sum = 0.0f;
    for (int64_t i = 0; i < count; ++i) {
        values[i] = std::exp(values[i] - largest);
        sum += values[i];
    }
    for (int64_t i = 0; i < count; ++i) values[i] /= sum;
}

// Consumes `probabilities`.
void choose(float* probabilities, int64_t num_experts, int64_t count, bool normalize,
            int32_t* experts, float* weights) {
    float sum = 0.0f;
    for (int64_t rank = 0; rank < count; ++rank) {
        float* const best = std::max_element(probabilities, probabilities + num_experts);
        experts[rank] = static_cast<int32_t>(best - probabilities);
        weights[rank] = *best;
        sum += *best;
        *best = -1.0f;
    }
    for (int64_t rank = 0; normalize && rank < count; ++rank) weights[rank] /= sum;
}

}  // namespace

void route(const Context& context, const ConstTensorView& logits, bool normalize,
           const TensorView& experts, const TensorView& weights) {
    const int64_t num_experts = logits.dim(1);
    const int64_t per_token = experts.dim(1);
    parallel_rows(context, logits.dim(0), num_experts * per_token, [&](int64_t token) {
        float probabilities[ops::kMaxExperts] = {};
        std::copy_n(logits.as<float>() + token * logits.stride(0), num_experts, probabilities);
        softmax(probabilities, num_experts);
        choose(probabilities, num_experts, per_token, normalize,
               experts.as<int32_t>() + token * per_token, weights.as<float>() + token * per_token);
    });
}

void sort_by_expert(const Context&, const ConstTensorView& experts, const TensorView& starts,
                    const TensorView& order, const TensorView& tokens) {
    const int64_t num_experts = starts.dim(0) - 1;
    int32_t* const begin = starts.as<int32_t>();
    std::fill_n(begin, starts.dim(0), 0);
    for (int64_t i = 0; i < experts.numel(); ++i) {
        const int32_t expert = experts.as<int32_t>()[i];
        NVLLM_CHECK(expert >= 0 && expert < num_experts,
                    "sort_by_expert: no expert " + std::to_string(expert));
        ++begin[expert + 1];
    }
    for (int64_t e = 0; e < num_experts; ++e) begin[e + 1] += begin[e];
    int32_t next[ops::kMaxExperts];
    std::copy_n(begin, num_experts, next);
    for (int64_t i = 0; i < experts.numel(); ++i) {
        const int32_t place = next[experts.as<int32_t>()[i]]++;
        order.as<int32_t>()[place] = static_cast<int32_t>(i);
        tokens.as<int32_t>()[place] = static_cast<int32_t>(i / experts.dim(1));
    }
}

void grouped_matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& starts,
                    const ConstTensorView& weight, DType compute_type, const TensorView& y) {
    const auto multiply = [&](int64_t e, int64_t first, int64_t count) {
        const ConstTensorView matrix(element(weight.data, weight.dtype, e * weight.stride(0)),
                                     weight.dtype, {weight.dim(1), weight.dim(2)}, weight.device);
        const ops::MatmulWeight one{matrix, {}};
        cpu::fused_matmul(context, x.rows(first, count), {&one, 1}, compute_type,
                          ops::MatmulOutput::overwrite, y.rows(first, count));
    };
    // Most is taken where all rows want one expert.
    if (context.is_dry_run()) return multiply(0, 0, x.dim(0));
    const int32_t* const begin = starts.as<int32_t>();
    for (int64_t e = 0; e < weight.dim(0); ++e) {
        const int64_t count = begin[e + 1] - begin[e];
        if (count > 0) multiply(e, begin[e], count);
    }
}

void add_expert_outputs(const Context& context, const ConstTensorView& x,
                        const ConstTensorView& order, const ConstTensorView& weights,
                        ops::MatmulOutput output, const TensorView& y) {
    if (context.is_dry_run()) return;
    const int64_t width = x.dim(1);
    if (output == ops::MatmulOutput::overwrite) {
        for (int64_t t = 0; t < y.dim(0); ++t)
            std::fill_n(y.as<float>() + t * y.stride(0), width, 0.0f);
    }
    for (int64_t i = 0; i < x.dim(0); ++i) {
        const int32_t choice = order.as<int32_t>()[i];
        const float weight = weights.as<float>()[choice];
        const float* from = x.as<float>() + i * x.stride(0);
        float* to = y.as<float>() + choice / weights.dim(1) * y.stride(0);
        for (int64_t column = 0; column < width; ++column) to[column] += weight * from[column];
    }
}

void add_weighted_rows(const Context& context, const ConstTensorView& x,
                       const ConstTensorView& rows, const ConstTensorView& weights,
                       const TensorView& y) {
    const int64_t width = x.dim(1);
    context.threads->parallel_for(x.dim(0), kRowGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            const float weight = weights.as<float>()[i];
            const float* from = x.as<float>() + i * x.stride(0);
            float* to = y.as<float>() + rows.as<int32_t>()[i] * y.stride(0);
            for (int64_t column = 0; column < width; ++column) to[column] += weight * from[column];
        }
    });
}

}  // namespace nvllm::cpu
