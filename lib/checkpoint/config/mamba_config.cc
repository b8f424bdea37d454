// Widths of heads, limits of steps, and multipliers.
#include "lib/checkpoint/config/mamba_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/config/linear_attention_config.h"

namespace nvllm {
namespace {

constexpr size_t kParts = 5;  // gates, values, keys, queries, steps

// transformers writes infinity as an object, since JSON has none.
bool is_infinity(const nlohmann::json& value) {
    if (value.is_number()) return value.get<double>() > 1e30;
    if (!value.is_object()) return false;
    const auto text = value.find("__float__");
    return text != value.end() && *text == "Infinity";
}

// Steps are positive, so that a limit of 0 is none.
void check_time_steps(const ConfigFields& fields, const char* key) {
    const nlohmann::json* limit = key == nullptr ? nullptr : fields.find(key);
    if (limit == nullptr) return;
    const bool is_none =
        limit->is_array() && limit->size() == 2 && (*limit)[0] == 0.0 && is_infinity((*limit)[1]);
    if (!is_none) fields.refuse(key, "only steps without limits are supported");
}

bool read_flag(const ConfigFields& fields, const char* key, bool absent) {
    return key == nullptr ? absent : fields.boolean(key).value_or(absent);
}

// The values of all heads as a key says them, or as many times the hidden size; 0: heads alone say
// it.
int64_t read_width(const ConfigFields& fields, const MambaKeys& keys, const ModelConfig& config) {
    if (keys.expansion == nullptr) return 0;
    constexpr int64_t kMaxExpansion = 64;
    const int64_t expanded =
        fields.integer(keys.expansion, 1, kMaxExpansion).value_or(2) * config.hidden_size;
    const bool is_said = keys.width != nullptr && fields.has(keys.width);
    // null says that the expansion does.
    const bool is_default = keys.width != nullptr && !fields.json().contains(keys.width);
    if (is_said) return fields.integer(keys.width, 1, kMaxIntermediate).value_or(0);
    if (is_default && keys.total_width > 0) return keys.total_width;
    if (expanded > kMaxIntermediate) {
        fields.refuse(keys.expansion,
                      fmt::format("its values are wider than {}", kMaxIntermediate));
    }
    return expanded;
}

void read_sizes(const ConfigFields& fields, const MambaKeys& keys, const ModelConfig& config,
                LinearAttentionConfig& linear) {
    linear.value_heads = fields.integer(keys.heads, 1, kMaxHeads).value_or(keys.num_heads);
    linear.key_heads = fields.integer(keys.groups, 1, kMaxHeads).value_or(keys.num_groups);
    linear.key_dim = fields.integer(keys.state_dim, 1, kMaxHeadDim).value_or(keys.state_size);
    linear.conv_taps = fields.integer(keys.taps, 2, kMaxTaps).value_or(4);
    const int64_t width = read_width(fields, keys, config);
    const nlohmann::json* dim = fields.find(keys.head_dim);
    const bool follows = keys.head_size == 0 && (dim == nullptr || *dim == "auto");
    linear.value_dim = follows
                           ? width / linear.value_heads
                           : fields.integer(keys.head_dim, 1, kMaxHeadDim).value_or(keys.head_size);
    if (width > 0 && linear.value_dim * linear.value_heads != width) {
        fields.refuse(keys.heads, fmt::format("its heads must have {} values in all", width));
    }
    if (linear.value_dim * linear.value_heads > kMaxIntermediate) {
        fields.refuse(keys.head_dim,
                      fmt::format("all heads of it are wider than {}", kMaxIntermediate));
    }
    if (linear.value_heads % linear.key_heads != 0) {
        fields.refuse(keys.groups, fmt::format("it must divide the {} heads", linear.value_heads));
    }
    if (linear.key_heads * linear.key_dim > kMaxIntermediate) {
        fields.refuse(keys.state_dim,
                      fmt::format("all groups of it are wider than {}", kMaxIntermediate));
    }
}

// Those of Falcon-H1.
void read_multipliers(const ConfigFields& fields, LinearAttentionConfig& linear) {
    linear.in_scale = fields.number("ssm_in_multiplier", -1e6, 1e6).value_or(1.0);
    linear.out_scale = fields.number("ssm_out_multiplier", -1e6, 1e6).value_or(1.0);
    if (auto parts = fields.numbers("ssm_multipliers", -1e6, 1e6)) {
        linear.part_scales = *std::move(parts);
        if (linear.part_scales.size() == kParts) return;
        fields.refuse("ssm_multipliers", fmt::format("{} numbers are expected", kParts));
    }
}

}  // namespace

LinearAttentionConfig read_mamba(const ConfigFields& fields, const MambaKeys& keys,
                                 const ModelConfig& config) {
    LinearAttentionConfig linear;
    linear.kind = StateLayerKind::mamba2;
    read_sizes(fields, keys, config, linear);
    linear.conv_bias = read_flag(fields, keys.conv_bias, true);
    linear.projection_bias = read_flag(fields, keys.in_bias, false);
    linear.output_bias = read_flag(fields, keys.out_bias, false);
    linear.has_norm = read_flag(fields, keys.has_norm, keys.norm);
    linear.norm_before_gate = read_flag(fields, keys.norm_before_gate, keys.norm_first);
    if (keys.activation != nullptr) {
        linear.activation = fields.text(keys.activation).value_or("silu");
    }
    if (keys.least_step != nullptr) {
        linear.least_step = fields.number(keys.least_step, 0.0, 1e6).value_or(keys.step);
    }
    check_time_steps(fields, keys.step_limits);
    read_multipliers(fields, linear);
    if (!config.layer_kinds.empty()) {
        for (const LayerKind kind : config.layer_kinds) {
            linear.layers.push_back(kind == LayerKind::state);
        }
        return linear;
    }
    // Where attention stands beside states, all layers have both.
    linear.layers = listed_layers(fields, config);
    const std::vector<bool> by_index =
        layers_not_listed(fields, "attn_layer_indices", true, config);
    if (linear.layers.empty()) linear.layers = by_index;
    return linear;
}

}  // namespace nvllm
