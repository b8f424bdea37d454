// Three dialects.
#include "lib/checkpoint/config/linear_attention_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/config/mamba_config.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

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

LinearAttentionConfig read_short_conv(const ConfigFields& fields, const ModelConfig& config) {
    LinearAttentionConfig linear;
    linear.kind = StateLayerKind::short_conv;
    linear.conv_taps = fields.integer("conv_L_cache", 2, kMaxTaps).value_or(3);
    linear.conv_bias = fields.boolean("conv_bias").value_or(false);
    linear.projection_bias = linear.conv_bias;
    linear.output_bias = linear.conv_bias;
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

LinearAttentionConfig read_kind(const ConfigFields& fields, const FamilyDefaults& family,
                                const ModelConfig& config) {
    switch (family.state_layers) {
        case StateLayerKind::mamba2:
            return read_mamba(fields, family.mamba, config);
        case StateLayerKind::short_conv:
            return read_short_conv(fields, config);
        case StateLayerKind::delta_net:
        case StateLayerKind::none:
            break;
    }
    return read_delta_net(fields, config);
}

}  // namespace

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

LinearAttentionConfig read_linear_attention(const ConfigFields& fields,
                                            const FamilyDefaults& family,
                                            const ModelConfig& config) {
    LinearAttentionConfig linear = read_kind(fields, family, config);
    if (linear.activation.empty()) linear.activation = config.activation;
    return linear;
}

}  // namespace nvllm
