// Mappings resolved to norms and linears of a block, and factors folded into both sides.
#include "lib/quantize/channel_scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/error.h"

namespace nvllm::quantize {
namespace {

std::string parent_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

// Gemma stores norm weights less 1.
float norm_offset(const ObservedModel& model) {
    return model.model().config().architecture.starts_with("Gemma") ? 1.0f : 0.0f;
}

// The largest factor that folding may multiply a weight with.
constexpr float kMostFactor = 1e4f;

class BlockScaler {
  public:
    BlockScaler(const BlockTask& task, const std::vector<size_t>& linears)
        : task_(task), linears_(linears) {
        if (!linears.empty()) block_ = task.model.linears()[linears.front()].block;
    }

    ChannelScaling scale() {
        for (const Modifier& modifier : task_.plan.recipe().modifiers) {
            if (find_method(modifier.method).scales && block_) apply(modifier);
        }
        for (const auto& [name, values] : norms_) store_norm(name, values);
        return std::move(scaling_);
    }

  private:
    const LinearName& name_of(size_t linear) const { return task_.model.linears()[linear].name; }

    void apply(const Modifier& modifier) {
        const bool is_awq = modifier.method == "awq";
        std::vector<ScalingMapping> mappings = modifier.scaling.mappings;
        if (mappings.empty()) mappings = family_mappings(task_.model, is_awq);
        for (const ScalingMapping& mapping : mappings) {
            for (const std::string& norm : norms_matching(mapping.smooth)) {
                fold(modifier, norm, std::nullopt, balanced_by(mapping, std::nullopt));
            }
            for (const size_t linear : linears_) {
                if (!matches_any(name_of(linear).name, {mapping.smooth})) continue;
                fold(modifier, "", linear, balanced_by(mapping, linear));
            }
        }
        if (!is_awq || !modifier.scaling.clips) return;
        for (const size_t linear : linears_) clip(linear);
    }

    // Norms of this block: vectors NORM.weight.
    std::vector<std::string> norms_matching(const std::string& pattern) const {
        std::vector<std::string> found;
        for (const std::string_view tensor : task_.model.checkpoint().names()) {
            if (!tensor.ends_with(".weight") || block_of_name(tensor) != block_) continue;
            if (task_.model.checkpoint().find(tensor)->rank != 1) continue;
            const std::string name(tensor.substr(0, tensor.size() - 7));
            if (matches_any(name, {pattern})) found.push_back(name);
        }
        return found;
    }

    std::vector<size_t> balanced_by(const ScalingMapping& mapping,
                                    std::optional<size_t> smooth) const {
        std::vector<size_t> found;
        for (const size_t linear : linears_) {
            const std::string& name = name_of(linear).name;
            if (!matches_any(name, mapping.balance)) continue;
            // One expert's matrices have nothing to do with another's.
            if (smooth && parent_of(name) != parent_of(name_of(*smooth).name)) continue;
            found.push_back(linear);
        }
        return found;
    }

    // Whether factors of this many channels can be folded into the two sides at all.
    bool fits(int64_t channels, const std::string& norm, std::optional<size_t> smooth,
              const std::vector<size_t>& balance) const {
        if (balance.empty()) return false;
        for (const size_t linear : balance) {
            const auto* const statistics = task_.statistics.of(task_.model.linears()[linear].site);
            if (name_of(linear).in != channels || statistics == nullptr ||
                name_of(linear).order != MatrixOrder::out_in) {
                return false;
            }
        }
        if (smooth) return name_of(*smooth).order == MatrixOrder::out_in;
        return !task_.model.checkpoint().find(norm + ".bias");
    }

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
        result.scale_type =
            plan.scale_type(task_.model.checkpoint().find(name_of(linear).weight())->dtype);
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

    void fold(const Modifier& modifier, const std::string& norm, std::optional<size_t> smooth,
              const std::vector<size_t>& balance) {
        const int64_t channels =
            smooth ? name_of(*smooth).out : task_.model.checkpoint().find(norm + ".weight")->dim(0);
        if (!fits(channels, norm, smooth, balance)) return;
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
            factor = std::clamp(factor, 1.0f / kMostFactor, kMostFactor);
        }
        if (smooth) {
            multiply(scaling_.rows, *smooth, factors);
        } else {
            factors = fold_into_norm(norm, factors);
        }
        for (const size_t linear : balance) multiply(scaling_.columns, linear, factors);
    }

    static void multiply(std::map<size_t, std::vector<float>>& map, size_t linear,
                         const std::vector<float>& factors) {
        std::vector<float>& values = map[linear];
        values.resize(factors.size(), 1.0f);
        for (size_t i = 0; i < factors.size(); ++i) values[i] *= factors[i];
    }

    // The norm's weights divided by the factors, in the type they are stored in; the factors that
    // this comes to, which the other side makes up for exactly.
    std::vector<float> fold_into_norm(const std::string& norm, std::vector<float> factors) {
        auto& values = norms_[norm];
        if (values.empty()) values = *task_.model.vector(norm + ".weight");
        const DType type = task_.model.checkpoint().find(norm + ".weight")->dtype;
        const float offset = norm_offset(task_.model);
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
        Tensor tensor = Tensor::allocate(type, {static_cast<int64_t>(values.size())});
        for (size_t i = 0; i < values.size(); ++i) {
            if (type == DType::bf16) {
                tensor.mutable_view().as<BFloat16>()[i] = BFloat16(values[i]);
            } else if (type == DType::f16) {
                tensor.mutable_view().as<Float16>()[i] = Float16(values[i]);
            } else {
                tensor.mutable_view().as<float>()[i] = values[i];
            }
        }
        scaling_.norms.push_back({name + ".weight", tensor});
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

std::vector<ScalingMapping> family_mappings(const ObservedModel& model, bool all) {
    bool has_feedforward_norm = false;
    for (const std::string_view name : model.checkpoint().names()) {
        has_feedforward_norm =
            has_feedforward_norm || name.ends_with("pre_feedforward_layernorm.weight");
    }
    std::vector<ScalingMapping> mappings = {
        {"re:.*input_layernorm$",
         {"re:.*q_proj$", "re:.*k_proj$", "re:.*v_proj$", "re:.*qkv_proj$"}},
        {"re:.*v_proj$", {"re:.*o_proj$"}},
        {has_feedforward_norm ? "re:.*pre_feedforward_layernorm$"
                              : "re:.*post_attention_layernorm$",
         {"re:.*gate_proj$", "re:.*up_proj$", "re:.*mlp\\.gate$", "re:.*block_sparse_moe\\.gate$",
          "re:.*w1$", "re:.*w3$"}},
        {"re:.*up_proj$", {"re:.*down_proj$"}},
        {"re:.*w3$", {"re:.*w2$"}}};
    if (!all) {
        std::erase_if(mappings, [](const ScalingMapping& mapping) {
            return !mapping.smooth.ends_with("norm$");
        });
    }
    return mappings;
}

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
