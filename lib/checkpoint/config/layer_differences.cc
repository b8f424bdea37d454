// Two dialects: sizes by layer, or of all layers with full attention.
#include "lib/checkpoint/config/layer_differences.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

constexpr int64_t kDefaultGlobalHeadDim = 512;
constexpr int64_t kDefaultLayerInput = 256;

void note(const ConfigFields& fields, const std::string& what, ModelConfig& config) {
    config.notes.push_back(fmt::format("{}: {}", fields.file_name(), what));
}

void check_heads(const ConfigFields& fields, const char* key, const LayerHeads& heads,
                 const ModelConfig& config) {
    if (heads.kv_heads == 0) return;  // of a config that is described though it is not whole
    if (config.num_heads % heads.kv_heads != 0) {
        fields.refuse(key, fmt::format("{} heads of keys do not divide the {} attention heads",
                                       heads.kv_heads, config.num_heads));
    }
    if (heads.head_dim % 2 != 0) fields.refuse(key, "rotary embeddings need an even head_dim");
    if (config.num_heads * heads.head_dim > kMaxIntermediate) {
        fields.refuse(key, fmt::format("all heads of it are wider than {}", kMaxIntermediate));
    }
}

size_t layer_number(const ConfigFields& fields, const std::string& text, size_t num_layers) {
    size_t layer = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, layer);
    if (error != std::errc() || stop != end || layer >= num_layers) {
        fields.refuse("per_layer_config",
                      fmt::format("{} is no layer of it", quoted_for_message(text)));
    }
    return layer;
}

// {"3": {"head_dim": 512}, ...}
void read_by_layer(const ConfigFields& fields, const ConfigFields& layers, ModelConfig& config) {
    for (const auto& [name, settings] : layers.json().items()) {
        LayerHeads& heads =
            config.layer_heads[layer_number(fields, name, config.layer_heads.size())];
        const auto of_layer = layers.object(name.c_str());
        if (!of_layer) continue;
        for (const auto& [key, value] : settings.items()) {
            if (key == "head_dim" || key == "num_key_value_heads") continue;
            of_layer->refuse(key.c_str(),
                             "only head_dim and num_key_value_heads of a layer are "
                             "supported");
        }
        heads.head_dim = of_layer->integer("head_dim", 1, kMaxHeadDim).value_or(heads.head_dim);
        heads.kv_heads =
            of_layer->integer("num_key_value_heads", 1, kMaxHeads).value_or(heads.kv_heads);
        check_heads(fields, "per_layer_config", heads, config);
    }
}

void read_layer_heads(const ConfigFields& fields, ModelConfig& config) {
    config.layer_heads.assign(static_cast<size_t>(config.num_layers),
                              {config.num_kv_heads, config.head_dim});
    const int64_t global_dim =
        fields.integer("global_head_dim", 1, kMaxHeadDim).value_or(kDefaultGlobalHeadDim);
    const auto global_heads = fields.integer("num_global_key_value_heads", 1, kMaxHeads);
    if (const auto by_layer = fields.object("per_layer_config")) {
        for (const char* key : {"global_head_dim", "num_global_key_value_heads"}) {
            if (!fields.has(key)) continue;
            note(fields, fmt::format("{} is not used: per_layer_config is there", key), config);
        }
        return read_by_layer(fields, *by_layer, config);
    }
    if (global_heads && !config.values_are_keys) {
        note(fields, "num_global_key_value_heads is not used: attention_k_eq_v is false", config);
    }
    for (size_t layer = 0; layer < config.layer_heads.size(); ++layer) {
        if (config.is_windowed(layer)) continue;
        LayerHeads& heads = config.layer_heads[layer];
        heads.head_dim = global_dim;
        if (config.values_are_keys && global_heads) heads.kv_heads = *global_heads;
        check_heads(fields, "global_head_dim", heads, config);
    }
}

// Layers of one kind have one RoPE, so that their heads have one size.
void check_kinds(const ConfigFields& fields, const ModelConfig& config) {
    for (size_t layer = 0; layer < config.layer_heads.size(); ++layer) {
        for (size_t other = 0; other < layer; ++other) {
            if (config.is_windowed(other) != config.is_windowed(layer)) continue;
            if (config.layer_heads[other].head_dim == config.layer_heads[layer].head_dim &&
                config.layer_heads[other].kv_heads == config.layer_heads[layer].kv_heads) {
                break;
            }
            fields.refuse("per_layer_config", "layers of one type must have heads of one size");
        }
    }
}

void read_sharing(const ConfigFields& fields, ModelConfig& config) {
    config.num_sharing_layers =
        fields.integer("num_kv_shared_layers", 0, config.num_layers - 1).value_or(0);
    if (fields.boolean("use_double_wide_mlp").value_or(false)) config.sharing_mlp_factor = 2;
    for (int64_t layer = config.num_layers - config.num_sharing_layers; layer < config.num_layers;
         ++layer) {
        if (config.shared_layer(static_cast<size_t>(layer))) continue;
        fields.refuse("num_kv_shared_layers",
                      fmt::format("layer {} shares what no layer of its type has", layer));
    }
}

}  // namespace

void read_layer_differences(const ConfigFields& fields, ModelConfig& config) {
    if (!config.windowed_layers.empty() && config.windowed_layers.back()) {
        note(fields, "the last layer has full attention, whatever layer_types says", config);
        config.windowed_layers.back() = false;
        config.layer_windows.back() = 0;
    }
    config.values_are_keys = fields.boolean("attention_k_eq_v").value_or(false);
    read_layer_heads(fields, config);
    check_kinds(fields, config);
    read_sharing(fields, config);
    config.layer_input_size =
        fields.integer("hidden_size_per_layer_input", 0, kMaxIntermediate)
            .value_or(fields.json().contains("hidden_size_per_layer_input") ? 0
                                                                            : kDefaultLayerInput);
    const int64_t rows =
        fields.integer("vocab_size_per_layer_input", 1, kMaxVocab).value_or(262144);
    if (config.layer_input_size > 0 && rows != config.vocab_size) {
        fields.refuse("vocab_size_per_layer_input",
                      "a table of as many rows as vocab_size says "
                      "is expected");
    }
    if (config.layer_input_size * config.num_layers > kMaxIntermediate) {
        fields.refuse("hidden_size_per_layer_input",
                      fmt::format("those of all layers are wider than {}", kMaxIntermediate));
    }
}

}  // namespace nvllm
