// Four dialects.
#include "lib/checkpoint/config/linear_attention_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/unused_keys.h"
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

// Layers that a list names by their numbers from 1 on.
void mark_layers(const ConfigFields& fields, const char* key, bool is_linear,
                 std::vector<std::optional<bool>>& layers) {
    for (const int64_t number : fields.integers(key)) {
        if (number < 1 || number > std::ssize(layers)) {
            fields.refuse(key, fmt::format("it names layer {} of {}", number, layers.size()));
        }
        auto& layer = layers[static_cast<size_t>(number - 1)];
        if (layer) fields.refuse(key, fmt::format("layer {} is named twice", number));
        layer = is_linear;
    }
}

std::vector<bool> layers_of_kimi(const ConfigFields& fields, const ConfigFields* own,
                                 const ModelConfig& config) {
    std::vector<bool> linear = listed_layers(fields, config);
    std::vector<std::optional<bool>> named(static_cast<size_t>(config.num_layers));
    const bool are_named = own != nullptr && own->has("full_attn_layers") && own->has("kda_layers");
    if (are_named) {
        mark_layers(*own, "full_attn_layers", false, named);
        mark_layers(*own, "kda_layers", true, named);
    }
    if (!linear.empty()) return linear;
    for (size_t layer = 0; layer < named.size(); ++layer) {
        if (are_named && !named[layer]) {
            own->refuse("kda_layers",
                        fmt::format("neither it nor full_attn_layers names layer {}", layer + 1));
        }
        linear.push_back(named[layer].value_or(layer == 0 || layer % 4 != 0));
    }
    return linear;
}

// Published files have the sizes in an object of their own, those of transformers at the top.
LinearAttentionConfig read_kimi_delta(const ConfigFields& fields, const ModelConfig& config,
                                      std::vector<std::string>& unused) {
    const auto own = fields.object("linear_attn_config");
    const auto size = [&](const char* top, const char* inner, int64_t low, int64_t high,
                          int64_t absent) {
        const auto said = own ? own->integer(inner, low, high) : std::nullopt;
        const int64_t at_top = fields.integer(top, low, high).value_or(absent);
        return said.value_or(at_top);
    };
    LinearAttentionConfig linear;
    linear.kind = StateLayerKind::kimi_delta;
    linear.value_heads = size("linear_num_heads", "num_heads", 1, kMaxHeads, 32);
    linear.value_dim = size("linear_head_dim", "head_dim", 1, kMaxHeadDim, 128);
    linear.conv_taps = size("linear_conv_kernel_dim", "short_conv_kernel_size", 2, kMaxTaps, 4);
    linear.key_heads = linear.value_heads;
    linear.key_dim = linear.value_dim;
    linear.gate_rank = linear.value_dim;
    if (linear.value_heads * linear.value_dim > kMaxIntermediate) {
        fields.refuse("linear_head_dim",
                      fmt::format("all heads of it are wider than {}", kMaxIntermediate));
    }
    linear.layers = layers_of_kimi(fields, own ? &*own : nullptr, config);
    if (!own) return linear;
    for (const std::string& key : unused_keys(own->json(), own->asked(), {})) {
        unused.push_back("linear_attn_config." + key);
    }
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
    const std::vector<bool> by_index = layers_not_listed(fields, "full_attn_idxs", false, config);
    if (linear.layers.empty()) linear.layers = by_index;
    return linear;
}

LinearAttentionConfig read_kind(const ConfigFields& fields, const FamilyDefaults& family,
                                const ModelConfig& config, std::vector<std::string>& unused) {
    switch (family.state_layers) {
        case StateLayerKind::mamba2:
            return read_mamba(fields, family.mamba, config);
        case StateLayerKind::short_conv:
            return read_short_conv(fields, config);
        case StateLayerKind::kimi_delta:
            return read_kimi_delta(fields, config, unused);
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

std::vector<bool> layers_not_listed(const ConfigFields& fields, const char* key, bool absent,
                                    const ModelConfig& config) {
    const bool is_said = fields.has(key);
    std::vector<bool> linear(static_cast<size_t>(config.num_layers), is_said || absent);
    for (const int64_t layer : fields.integers(key)) {
        if (layer < 0 || layer >= config.num_layers) {
            fields.refuse(key, "it names a layer that is not there");
        }
        linear[static_cast<size_t>(layer)] = false;
    }
    return linear;
}

LinearAttentionConfig read_linear_attention(const ConfigFields& fields,
                                            const FamilyDefaults& family, const ModelConfig& config,
                                            std::vector<std::string>& unused) {
    LinearAttentionConfig linear = read_kind(fields, family, config, unused);
    if (linear.activation.empty()) linear.activation = config.activation;
    return linear;
}

}  // namespace nvllm
