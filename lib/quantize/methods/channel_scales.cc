// Mappings resolved to norms and linears of a block, and factors folded into both sides.
#include "lib/quantize/methods/channel_scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/error.h"

namespace nvllm::quantize {
namespace {

// The largest factor that folding may multiply a weight with.
constexpr float kMaxScaleFactor = 1e4f;

class BlockScaler {
  public:
    BlockScaler(const BlockTask& task, const std::vector<size_t>& linears)
        : task_(task), linears_(linears) {
        if (!linears.empty()) block_ = task.model.linears()[linears.front()].block;
    }

    ChannelScaling scale() {
        const std::vector<Modifier>& modifiers = task_.plan.recipe().modifiers;
        for (size_t i = 0; i < modifiers.size() && block_; ++i) {
            for (const ScaledFlow& scaled : task_.plan.scaled_flows(i)) {
                if (scaled.block == *block_) fold(modifiers[i], scaled);
            }
            if (modifiers[i].method != "awq" || !modifiers[i].scaling.clips) continue;
            for (const size_t linear : linears_) clip(linear);
        }
        for (const auto& [name, values] : norms_) store_norm(name, values);
        return std::move(scaling_);
    }

  private:
    const LinearSpec& name_of(size_t linear) const { return task_.model.linears()[linear].name; }

    Tensor weight_so_far(size_t linear) const {
        Tensor weight = task_.model.weight(linear);
        const TensorView view = weight.mutable_view();
        const auto columns = scaling_.columns.find(linear);
        const auto rows = scaling_.rows.find(linear);
        for (int64_t row = 0; row < view.dim(0); ++row) {
            float* const values = view.as<float>() + row * view.dim(1);
            for (int64_t k = 0; k < view.dim(1); ++k) {
                if (columns != scaling_.columns.end()) {
                    values[k] *= columns->second[static_cast<size_t>(k)];
                }
                if (rows != scaling_.rows.end()) {
                    values[k] /= rows->second[static_cast<size_t>(row)];
                }
            }
        }
        return weight;
    }

    // Second moments of the inputs as they are so far.
    ConstTensorView gram_so_far(size_t linear) {
        const SiteStatistics& statistics = *task_.statistics.of(task_.model.linears()[linear].site);
        const auto columns = scaling_.columns.find(linear);
        if (columns == scaling_.columns.end()) return statistics.gram.view();
        const int64_t size = statistics.gram.view().dim(0);
        Tensor scaled = Tensor::allocate(DType::f32, {size, size});
        for (int64_t i = 0; i < size; ++i) {
            for (int64_t k = 0; k < size; ++k) {
                scaled.mutable_view().as<float>()[i * size + k] =
                    statistics.gram.view().as<float>()[i * size + k] /
                    (columns->second[static_cast<size_t>(i)] *
                     columns->second[static_cast<size_t>(k)]);
            }
        }
        held_.push_back(scaled);
        return scaled.view();
    }

    BalancedLinear balanced(size_t linear) {
        BalancedLinear result;
        result.weight = weight_so_far(linear);
        result.gram = gram_so_far(linear);
        const LinearPlan& plan = task_.plan.linear(linear);
        if (plan.scheme != nullptr) result.arguments = &*plan.scheme->weights;
        result.scale_type = plan.scale_type(task_.model.dense_type(linear));
        return result;
    }

    // What the inputs of the linear are, channel by channel.
    template <typename Magnitude>
    std::vector<float> inputs_so_far(size_t linear, const Magnitude& magnitude) const {
        const SiteStatistics& statistics = *task_.statistics.of(task_.model.linears()[linear].site);
        const auto columns = scaling_.columns.find(linear);
        std::vector<float> values;
        for (size_t i = 0; i < statistics.max_abs.size(); ++i) {
            values.push_back(magnitude(statistics, i));
            if (columns != scaling_.columns.end()) values.back() /= columns->second[i];
        }
        return values;
    }

    void fold(const Modifier& modifier, const ScaledFlow& scaled) {
        const std::vector<size_t>& balance = scaled.readers;
        held_.clear();
        std::vector<BalancedLinear> linears;
        for (const size_t linear : balance) linears.push_back(balanced(linear));
        std::vector<float> factors =
            modifier.method == "awq"
                ? activation_aware_factors(
                      task_.context, linears,
                      inputs_so_far(balance.front(),
                                    [](const SiteStatistics& statistics, size_t i) {
                                        return statistics.mean_abs(i);
                                    }),
                      modifier.scaling)
                : smoothing_factors(linears,
                                    inputs_so_far(balance.front(),
                                                  [](const SiteStatistics& statistics, size_t i) {
                                                      return statistics.max_abs[i];
                                                  }),
                                    modifier.scaling.smoothing_strength);
        for (float& factor : factors) {
            if (!(factor > 0.0f) || !std::isfinite(factor)) factor = 1.0f;
            factor = std::clamp(factor, 1.0f / kMaxScaleFactor, kMaxScaleFactor);
        }
        if (scaled.writer) {
            multiply(scaling_.rows, *scaled.writer, rows_of(scaled, factors));
        } else {
            factors = fold_into_norm(*scaled.flow, factors);
        }
        for (const size_t linear : balance) multiply(scaling_.columns, linear, factors);
    }

    // Divisors of all rows of the writer, of which the flow's channels are some.
    std::vector<float> rows_of(const ScaledFlow& scaled, const std::vector<float>& factors) const {
        std::vector<float> rows(static_cast<size_t>(name_of(*scaled.writer).out), 1.0f);
        std::copy(factors.begin(), factors.end(), rows.begin() + scaled.flow->first_row);
        return rows;
    }

    static void multiply(std::map<size_t, std::vector<float>>& map, size_t linear,
                         const std::vector<float>& factors) {
        std::vector<float>& values = map[linear];
        values.resize(factors.size(), 1.0f);
        for (size_t i = 0; i < factors.size(); ++i) values[i] *= factors[i];
    }

    // The norm's weights divided by the factors, in the type they are stored in; the factors that
    // this comes to, which the other side makes up for exactly.
    std::vector<float> fold_into_norm(const ChannelFlow& flow, std::vector<float> factors) {
        auto& values = norms_[flow.writer];
        if (values.empty()) values = *task_.model.vector(flow.writer + ".weight");
        const DType type = task_.model.checkpoint().find(flow.writer + ".weight")->dtype;
        const float offset = flow.weight_offset;
        for (size_t i = 0; i < values.size(); ++i) {
            const float before = values[i] + offset;
            const float stored = rounded(type, before / factors[i] - offset);
            const float after = stored + offset;
            if (before == 0.0f || after == 0.0f || !std::isfinite(before / after)) {
                factors[i] = 1.0f;
                continue;
            }
            values[i] = stored;
            factors[i] = before / after;
        }
        return factors;
    }

    static float rounded(DType type, float value) {
        if (type == DType::bf16) return static_cast<float>(BFloat16(value));
        if (type == DType::f16) return static_cast<float>(Float16(value));
        return value;
    }

    void store_norm(const std::string& name, const std::vector<float>& values) {
        const DType type = task_.model.checkpoint().find(name + ".weight")->dtype;
        const ConstTensorView view(values.data(), DType::f32,
                                   {static_cast<int64_t>(values.size())});
        scaling_.norms.push_back({name + ".weight", converted(view, type, task_.model.threads())});
    }

    // Not of queries and keys, whose products decide where attention looks.
    void clip(size_t linear) {
        const std::string& name = name_of(linear).name;
        const bool decides_attention =
            name.ends_with("q_proj") || name.ends_with("k_proj") || name.ends_with("qkv_proj");
        if (decides_attention || task_.plan.linear(linear).scheme == nullptr ||
            task_.statistics.of(task_.model.linears()[linear].site) == nullptr) {
            return;
        }
        held_.clear();
        GroupLimits limits = search_limits(task_.context, balanced(linear));
        if (!limits.limits.empty()) scaling_.limits[linear] = std::move(limits);
    }

    const BlockTask& task_;
    const std::vector<size_t>& linears_;
    std::optional<int32_t> block_;
    ChannelScaling scaling_;
    std::map<std::string, std::vector<float>> norms_;
    std::vector<Tensor> held_;
};

}  // namespace

ChannelScaling scale_channels(const BlockTask& task, const std::vector<size_t>& linears) {
    return BlockScaler(task, linears).scale();
}

void clip_groups(const GroupLimits& limits, const TensorView& weight) {
    const int64_t in = weight.dim(1);
    const int64_t groups = (in + limits.group_columns - 1) / limits.group_columns;
    for (int64_t row = 0; row < weight.dim(0); ++row) {
        for (int64_t column = 0; column < in; ++column) {
            const float limit =
                limits.limits[static_cast<size_t>(row * groups + column / limits.group_columns)];
            float& value = weight.as<float>()[row * in + column];
            value = std::clamp(value, -limit, limit);
        }
    }
}

}  // namespace nvllm::quantize
