// Three dialects.
#include "lib/checkpoint/config/linear_attention_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

constexpr int64_t kMaxTaps = 64;

// One answer a layer: the types that the file lists. Empty: it lists none.
std::vector<bool> listed_layers(const ConfigFields& fields, const ModelConfig& config) {
    std::vector<bool> linear;
    const auto types = fields.texts("layer_types");
    if (!types) return linear;
    for (const std::string& type : *types) {
        // As transformers calls them since version 5, as published files of Granite 4 do, and
        // LFM2's.
        const bool is_linear = type == "linear_attention" || type == "mamba" || type == "conv";
        if (!is_linear && type != "full_attention" && type != "attention") {
            fields.refuse("layer_types", fmt::format("layers of type {} are not supported",
                                                     quoted_for_message(type)));
        }
        linear.push_back(is_linear);
    }
    if (std::ssize(linear) != config.num_layers) {
        fields.refuse("layer_types", fmt::format("{} layers are expected", config.num_layers));
    }
    return linear;
}

std::vector<bool> layers_of_delta_nets(const ConfigFields& fields, const ModelConfig& config) {
    std::vector<bool> linear = listed_layers(fields, config);
    const int64_t interval = fields.integer("full_attention_interval", 1, kMaxLayers).value_or(4);
    if (!linear.empty()) return linear;
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
        linear.push_back((layer + 1) % interval != 0);
    }
    return linear;
}

LinearAttentionConfig read_delta_net(const ConfigFields& fields, const ModelConfig& config) {
    LinearAttentionConfig linear;
    linear.key_heads = fields.integer("linear_num_key_heads", 1, kMaxHeads).value_or(16);
    linear.value_heads = fields.integer("linear_num_value_heads", 1, kMaxHeads).value_or(32);
    linear.key_dim = fields.integer("linear_key_head_dim", 1, kMaxHeadDim).value_or(128);
    linear.value_dim = fields.integer("linear_value_head_dim", 1, kMaxHeadDim).value_or(128);
    linear.conv_taps = fields.integer("linear_conv_kernel_dim", 2, kMaxTaps).value_or(4);
    if (linear.value_heads % linear.key_heads != 0) {
        fields.refuse("linear_num_value_heads",
                      fmt::format("it must be a multiple of the {} key heads", linear.key_heads));
    }
    for (const auto& [key, width] :
         {std::pair("linear_key_head_dim", linear.key_heads * linear.key_dim),
          std::pair("linear_value_head_dim", linear.value_heads * linear.value_dim)}) {
        if (width <= kMaxIntermediate) continue;
        fields.refuse(key, fmt::format("all heads of it are wider than {}", kMaxIntermediate));
    }
    linear.layers = layers_of_delta_nets(fields, config);
    return linear;
}

// transformers writes infinity as an object, since JSON has none.
bool is_infinity(const nlohmann::json& value) {
    if (value.is_number()) return value.get<double>() > 1e30;
    if (!value.is_object()) return false;
    const auto text = value.find("__float__");
    return text != value.end() && *text == "Infinity";
}

// Steps are positive, so that a limit of 0 is none.
void check_time_steps(const ConfigFields& fields) {
    const nlohmann::json* limit = fields.find("time_step_limit");
    if (limit == nullptr) return;
    const bool is_none =
        limit->is_array() && limit->size() == 2 && (*limit)[0] == 0.0 && is_infinity((*limit)[1]);
    if (!is_none) fields.refuse("time_step_limit", "only steps without limits are supported");
}

LinearAttentionConfig read_mamba(const ConfigFields& fields, const ModelConfig& config) {
    LinearAttentionConfig linear;
    linear.kind = StateLayerKind::mamba2;
    linear.value_heads = fields.integer("mamba_n_heads", 1, kMaxHeads).value_or(128);
    linear.key_heads = fields.integer("mamba_n_groups", 1, kMaxHeads).value_or(1);
    linear.key_dim = fields.integer("mamba_d_state", 1, kMaxHeadDim).value_or(256);
    linear.conv_taps = fields.integer("mamba_d_conv", 2, kMaxTaps).value_or(4);
    linear.conv_bias = fields.boolean("mamba_conv_bias").value_or(true);
    linear.projection_bias = fields.boolean("mamba_proj_bias").value_or(false);
    constexpr int64_t kMaxExpansion = 64;
    const int64_t width =
        fields.integer("mamba_expand", 1, kMaxExpansion).value_or(2) * config.hidden_size;
    if (width > kMaxIntermediate) {
        fields.refuse("mamba_expand",
                      fmt::format("its values are wider than {}", kMaxIntermediate));
    }
    const nlohmann::json* dim = fields.find("mamba_d_head");
    const bool follows = dim == nullptr || *dim == "auto";
    linear.value_dim = follows ? width / linear.value_heads
                               : fields.integer("mamba_d_head", 1, kMaxHeadDim).value_or(0);
    if (linear.value_dim * linear.value_heads != width) {
        fields.refuse("mamba_n_heads", fmt::format("its heads must have {} values in all", width));
    }
    if (linear.value_heads % linear.key_heads != 0) {
        fields.refuse("mamba_n_groups",
                      fmt::format("it must divide the {} heads", linear.value_heads));
    }
    if (linear.key_heads * linear.key_dim > kMaxIntermediate) {
        fields.refuse("mamba_d_state",
                      fmt::format("all groups of it are wider than {}", kMaxIntermediate));
    }
    check_time_steps(fields);
    linear.layers = listed_layers(fields, config);
    if (linear.layers.empty()) linear.layers.assign(static_cast<size_t>(config.num_layers), true);
    return linear;
}

LinearAttentionConfig read_short_conv(const ConfigFields& fields, const ModelConfig& config) {
    LinearAttentionConfig linear;
    linear.kind = StateLayerKind::short_conv;
    linear.conv_taps = fields.integer("conv_L_cache", 2, kMaxTaps).value_or(3);
    linear.conv_bias = fields.boolean("conv_bias").value_or(false);
    linear.projection_bias = linear.conv_bias;
    linear.layers = listed_layers(fields, config);
    const bool has_indices = fields.has("full_attn_idxs");
    const std::vector<int64_t> full = fields.integers("full_attn_idxs");
    if (!linear.layers.empty()) return linear;
    linear.layers.assign(static_cast<size_t>(config.num_layers), has_indices);
    for (const int64_t layer : full) {
        if (layer < 0 || layer >= config.num_layers) {
            fields.refuse("full_attn_idxs", "it names a layer that is not there");
        }
        linear.layers[static_cast<size_t>(layer)] = false;
    }
    return linear;
}

}  // namespace

LinearAttentionConfig read_linear_attention(const ConfigFields& fields,
                                            const FamilyDefaults& family,
                                            const ModelConfig& config) {
    switch (family.state_layers) {
        case StateLayerKind::mamba2:
            return read_mamba(fields, config);
        case StateLayerKind::short_conv:
            return read_short_conv(fields, config);
        case StateLayerKind::delta_net:
        case StateLayerKind::none:
            break;
    }
    return read_delta_net(fields, config);
}

}  // namespace nvllm
