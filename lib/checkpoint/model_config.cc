// config.json of the families that are read: their key names, and the limits every value must keep.
#include "lib/checkpoint/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/architecture.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/config/chunk_config.h"
#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/config/latent_config.h"
#include "lib/checkpoint/config/layer_differences.h"
#include "lib/checkpoint/config/layer_kinds.h"
#include "lib/checkpoint/config/linear_attention_config.h"
#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/draft_head_config.h"
#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/foreign_models.h"
#include "lib/checkpoint/harmless_keys.h"
#include "lib/checkpoint/label_config.h"
#include "lib/checkpoint/quantization_config.h"
#include "lib/checkpoint/quoted.h"
#include "lib/checkpoint/rope_config.h"
#include "lib/checkpoint/text_part.h"

namespace nvllm {
namespace {

// The value under the first of several names that is there.
std::optional<int64_t> any_integer(const ConfigFields& fields,
                                   std::initializer_list<const char*> keys, int64_t low,
                                   int64_t high) {
    for (const char* key : keys) {
        if (const auto value = fields.integer(key, low, high)) return value;
    }
    return std::nullopt;
}

// A size that must be there: by its key, else the family's default. Unknown families need none.
int64_t required(const ConfigFields& fields, const FamilyDefaults& family, int64_t fallback,
                 std::initializer_list<const char*> keys, int64_t high) {
    if (const auto value = any_integer(fields, keys, 1, high)) return *value;
    if (fallback == 0 && !family.model_type.empty()) {
        fields.refuse(*keys.begin(), fmt::format("a {} model needs it", family.model_type));
    }
    return fallback;
}

// LFM2's width follows from another one, as Llama's first code had it.
void adjust_intermediate_size(const ConfigFields& fields, const FamilyDefaults& family,
                              ModelConfig& config) {
    const auto given = fields.integer("block_ff_dim", 1, kMaxIntermediate);
    const double factor = fields.number("block_ffn_dim_multiplier", 1e-6, 1e6).value_or(1.0);
    const int64_t step = fields.integer("block_multiple_of", 1, kMaxIntermediate).value_or(256);
    const bool is_adjusted =
        fields.boolean("block_auto_adjust_ff_dim").value_or(family.adjusts_intermediate_size);
    if (given) config.intermediate_size = *given;
    if (!is_adjusted) return;
    const int64_t two_thirds = 2 * config.intermediate_size / 3;
    const auto width = static_cast<int64_t>(factor * static_cast<double>(two_thirds));
    config.intermediate_size = (width + step - 1) / step * step;
    if (width < 1 || config.intermediate_size > kMaxIntermediate) {
        fields.refuse("block_ffn_dim_multiplier",
                      fmt::format("MLPs of {} to {} channels are expected", 1, kMaxIntermediate));
    }
}

void read_sizes(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    config.vocab_size = required(fields, family, family.vocab_size, {"vocab_size"}, kMaxVocab);
    config.hidden_size = required(fields, family, 0, {"hidden_size", "n_embd", "dim"}, kMaxHidden);
    if (family.lists_kinds) {
        read_layer_kinds(fields, config);
    } else {
        config.num_layers =
            required(fields, family, 0, {"num_hidden_layers", "n_layer", "n_layers"}, kMaxLayers);
    }
    if (family.has_only_states) {
        config.layer_kinds.assign(static_cast<size_t>(config.num_layers), LayerKind::state);
        config.max_positions = family.max_positions;
        return;
    }
    config.num_heads = required(fields, family, family.num_heads,
                                {"num_attention_heads", "n_head", "n_heads"}, kMaxHeads);
    config.max_positions =
        any_integer(fields, {"max_position_embeddings", "n_positions"}, 1, kMaxPositions)
            .value_or(family.max_positions);
    config.intermediate_size =
        required(fields, family,
                 family.intermediate_size > 0 ? family.intermediate_size
                                              : family.intermediate_per_hidden * config.hidden_size,
                 {"intermediate_size", "n_inner", "hidden_dim"}, kMaxIntermediate);
    adjust_intermediate_size(fields, family, config);
    if (family.dense_width_key == nullptr) return;
    config.expert_intermediate_size = config.intermediate_size;
    config.intermediate_size =
        fields.integer(family.dense_width_key, 1, kMaxIntermediate).value_or(family.dense_width);
}

void read_heads(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    if (config.num_heads == 0) return;
    const bool as_heads = family.num_kv_heads == 0 || fields.json().contains("num_key_value_heads");
    config.num_kv_heads = config.learned_positions
                              ? config.num_heads
                              : fields.integer("num_key_value_heads", 1, kMaxHeads)
                                    .value_or(as_heads ? config.num_heads : family.num_kv_heads);
    if (config.num_heads % config.num_kv_heads != 0) {
        fields.refuse("num_key_value_heads",
                      fmt::format("it must divide the {} attention heads", config.num_heads));
    }
    if (family.has_latent_attention) {
        config.latent_attention = read_latent_attention(fields, family, config.num_heads);
        config.head_dim = config.latent_attention->rope_dim;
        if (config.num_kv_heads != config.num_heads) {
            fields.refuse("num_key_value_heads", fmt::format("latent attention has as many as "
                                                             "attention heads, {}",
                                                             config.num_heads));
        }
        return;
    }
    config.head_dim = family.head_dim;
    if (!config.learned_positions) {
        config.head_dim = fields.integer("head_dim", 1, kMaxHeadDim).value_or(family.head_dim);
    }
    if (config.head_dim == 0) {
        if (config.hidden_size % config.num_heads != 0) {
            fields.refuse(fields.has("n_embd") ? "n_embd" : "hidden_size",
                          fmt::format("it must be a multiple of the {} attention heads, or "
                                      "head_dim must be given",
                                      config.num_heads));
        }
        config.head_dim = config.hidden_size / config.num_heads;
    }
    if (config.num_heads * config.head_dim > kMaxIntermediate) {
        fields.refuse("head_dim", fmt::format("{} heads of it are wider than {}", config.num_heads,
                                              kMaxIntermediate));
    }
    if (!config.learned_positions && config.head_dim % 2 != 0) {
        fields.refuse("head_dim", "rotary embeddings need an even one");
    }
}

void read_switches(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    if (family.epsilon_key != nullptr) {
        config.norm_epsilon =
            fields.number(family.epsilon_key, 0.0, 1.0).value_or(config.norm_epsilon);
    }
    config.activation = fields.text(family.activation_key).value_or(family.activation);
    const std::string_view misnamed = family.misnamed_activation;
    if (!misnamed.empty() && config.activation == misnamed) {
        config.activation = family.activation;
    }
    config.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(family.tied);
    // As LFM2's files say it.
    if (const auto tied = fields.boolean("tie_embedding")) config.tie_word_embeddings = *tied;
    config.attention_bias = family.attention_bias;
    if (family.attention_bias_key != nullptr) {
        config.attention_bias =
            fields.boolean(family.attention_bias_key).value_or(family.attention_bias);
    }
    config.attention_output_bias = family.output_bias;
    if (family.output_bias_key != nullptr) {
        config.attention_output_bias =
            fields.boolean(family.output_bias_key).value_or(family.output_bias);
    }
    config.query_key_norm = fields.boolean("use_qk_norm").value_or(family.query_key_norm);
    config.has_post_norms = fields.boolean("use_post_norm").value_or(true);
    config.scales_embedding = fields.boolean("mup_enabled").value_or(false);
    config.is_parallel = fields.boolean("use_parallel_residual").value_or(false);
    config.head_bias = fields.boolean(family.head_bias_key).value_or(family.head_bias);
    config.mlp_bias = fields.boolean(family.mlp_bias_key).value_or(family.mlp_bias);
    config.norm_bias = fields.boolean("norm_bias").value_or(false);
}

// A cap that is null is none; one that is absent is the family's.
double read_cap(const ConfigFields& fields, const char* key, double absent) {
    if (!fields.json().contains(key)) return absent;
    return fields.number(key, 0.0, 1e6).value_or(0.0);
}

void read_attention(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    const double scalar =
        fields.number("query_pre_attn_scalar", 1e-6, 1e6).value_or(family.query_scalar);
    if (scalar > 0.0) config.attention_scale = 1.0 / std::sqrt(scalar);
    if (family.attention_scale > 0.0) config.attention_scale = family.attention_scale;
    if (const auto factor = fields.number("attention_multiplier", -1e6, 1e6)) {
        config.attention_scale = *factor;
    }
    if (!fields.boolean("scale_attn_weights").value_or(true)) config.attention_scale = 1.0;
    config.attention_scale_by_layer =
        fields.boolean("scale_attn_by_inverse_layer_idx").value_or(false);
    config.attention_soft_cap =
        read_cap(fields, "attn_logit_softcapping", family.attention_soft_cap);
    config.logit_soft_cap = read_cap(fields, "final_logit_softcapping", family.logit_soft_cap);
}

// A decoder whose positions see later ones makes vectors or classes.
void read_direction(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    config.encoder = family.encoder;
    // "vision": only of images.
    const nlohmann::json* sees_later = fields.find("use_bidirectional_attention");
    const bool is_of_images = sees_later != nullptr && *sees_later == "vision";
    if (sees_later == nullptr || is_of_images || *sees_later == false) return;
    if (!family.may_be_encoder || *sees_later != true ||
        (config.generates && config.labels.empty())) {
        fields.refuse("use_bidirectional_attention",
                      "a decoder whose positions see later ones is not supported");
    }
    config.encoder = true;
    config.generates = false;
}

// Multipliers of Granite, Cohere and Falcon-H1.
void read_scales(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    config.embedding_scale = fields.number("embedding_multiplier", -1e6, 1e6).value_or(1.0);
    config.residual_scale = fields.number("residual_multiplier", -1e6, 1e6).value_or(1.0);
    config.logit_scale = fields.number("logit_scale", -1e6, 1e6).value_or(family.logit_scale);
    const double scaling = fields.number("logits_scaling", 1e-6, 1e6).value_or(1.0);
    config.logit_scale *= family.multiplies_logits ? scaling : 1.0 / scaling;
    config.logit_scale *= fields.number("lm_head_multiplier", -1e6, 1e6).value_or(1.0);
    config.attention_in_scale = fields.number("attention_in_multiplier", -1e6, 1e6).value_or(1.0);
    config.attention_out_scale = fields.number("attention_out_multiplier", -1e6, 1e6).value_or(1.0);
    // Keys meet queries only.
    if (const auto factor = fields.number("key_multiplier", -1e6, 1e6)) {
        const double plain = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
        config.attention_scale = config.attention_scale.value_or(plain) * *factor;
    }
    const auto of_mlp = fields.numbers("mlp_multipliers", -1e6, 1e6);
    if (!of_mlp) return;
    if (of_mlp->size() != 2) fields.refuse("mlp_multipliers", "two numbers are expected");
    config.mlp_gate_scale = of_mlp->at(0);
    config.mlp_out_scale = of_mlp->at(1);
}

// Layers without RoPE that no_rope_layers lists with a 0.
std::vector<bool> listed_rotations(const ConfigFields& fields, const ModelConfig& config) {
    std::vector<bool> rotated;
    for (const int64_t is_rotated : fields.integers("no_rope_layers")) {
        rotated.push_back(is_rotated != 0);
    }
    const int64_t interval = fields.integer("no_rope_layer_interval", 1, kMaxLayers).value_or(4);
    if (rotated.empty()) {
        for (int64_t layer = 0; layer < config.num_layers; ++layer) {
            rotated.push_back((layer + 1) % interval != 0);
        }
    }
    if (static_cast<int64_t>(rotated.size()) != config.num_layers) {
        fields.refuse("no_rope_layers", fmt::format("{} layers are expected", config.num_layers));
    }
    return rotated;
}

bool window_by_rule(const ConfigFields& fields, const FamilyDefaults& family,
                    const ModelConfig& config, int64_t layer) {
    const auto below = [&](int64_t absent) {
        return layer < fields.integer("max_window_layers", 0, kMaxLayers).value_or(absent);
    };
    switch (family.windows) {
        case Windows::none:
            return false;
        case Windows::all:
            return true;
        case Windows::switched:
            // Qwen3-MoE knows no layers without the window.
            return !reads_key(family, "max_window_layers") || !below(family.max_window_layers);
        case Windows::switched_even:
            return layer % 2 == 0 && below(family.max_window_layers);
        case Windows::switched_unrotated:
            return !config.rotates(layer);
        case Windows::alternating:
            return layer % 2 == 0;
        case Windows::all_but_nth:
            return (layer + 1) % fields.integer("sliding_window_pattern", 1, kMaxLayers)
                                     .value_or(family.window_pattern) !=
                   0;
        case Windows::all_but_first_of_n:
            return layer % fields.integer("global_attn_every_n_layers", 1, kMaxLayers)
                               .value_or(family.window_pattern) !=
                   0;
        case Windows::three_of_four:
            return layer % 4 != 0;
        case Windows::above:
            return !below(family.max_window_layers);
        case Windows::listed:
            return false;
    }
    return false;
}

// One answer a layer from layer_types; empty when the file does not say.
std::vector<bool> windowed_layers(const ConfigFields& fields, const ModelConfig& config) {
    std::vector<bool> windowed;
    const auto types = fields.texts("layer_types");
    if (!types) return windowed;
    for (const std::string& type : *types) {
        if (type != "sliding_attention" && type != "full_attention") {
            fields.refuse("layer_types", fmt::format("layers of type {} are not supported",
                                                     quoted_for_message(type)));
        }
        windowed.push_back(type == "sliding_attention");
    }
    if (static_cast<int64_t>(windowed.size()) != config.num_layers) {
        fields.refuse("layer_types", fmt::format("{} layers are expected", config.num_layers));
    }
    return windowed;
}

std::vector<bool> rotations_by_type(const ConfigFields& fields, const ModelConfig& config) {
    const std::string type = fields.text("position_embedding_type").value_or("nope");
    if (type != "rope" && type != "nope") {
        fields.refuse("position_embedding_type", "rope or nope is expected");
    }
    return std::vector<bool>(static_cast<size_t>(config.num_layers), type == "rope");
}

void read_windows(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    config.layer_windows.assign(static_cast<size_t>(config.num_layers), 0);
    const bool said = fields.json().contains(family.window_key);
    if (family.windows == Windows::none) return;
    // Known to the family, though another of them may leave one without a meaning.
    for (const char* key : {"sliding_window", "layer_types", "max_window_layers",
                            "sliding_window_pattern", "global_attn_every_n_layers"}) {
        fields.find(key);
    }
    const bool is_switched = family.windows == Windows::switched ||
                             family.windows == Windows::switched_even ||
                             family.windows == Windows::switched_unrotated;
    if (is_switched && !fields.boolean("use_sliding_window").value_or(false)) {
        return;
    }
    config.sliding_window =
        fields.integer(family.window_key, 1, kMaxPositions).value_or(said ? 0 : family.window);
    const bool has_windows = config.sliding_window > 0;
    // Half of it lies on either side of a position that sees later ones.
    if (config.encoder && has_windows) config.sliding_window = config.sliding_window / 2 + 1;
    // A window that no position can leave is none.
    if (config.sliding_window >= config.max_positions) config.sliding_window = 0;
    const std::vector<bool> windowed = windowed_layers(fields, config);
    std::vector<bool> sees_window;
    for (size_t layer = 0; layer < config.layer_windows.size(); ++layer) {
        const auto index = static_cast<int64_t>(layer);
        sees_window.push_back(windowed.empty() ? window_by_rule(fields, family, config, index)
                                               : windowed[layer]);
        if (sees_window.back()) config.layer_windows[layer] = config.sliding_window;
    }
    const bool by_window = family.rotated == RotatedLayers::windowed ||
                           (family.rotated == RotatedLayers::windowed_if_windows && has_windows);
    if (!has_windows) sees_window.assign(sees_window.size(), false);
    config.windowed_layers = sees_window;
    // Also where the window is one that no position can leave.
    if (by_window) config.rotated_layers = std::move(sees_window);
}

void read_rope(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config,
               std::vector<std::string>& unused) {
    if (config.head_dim == 0 || config.learned_positions) return;
    const RopeModel model{family, config.max_positions, config.head_dim};
    const double theta = fields.number(family.theta_key, 1.0, kMaxTheta).value_or(family.theta);
    config.rope = read_rope_config(fields, "full_attention", theta, model, unused);
    if (config.latent_attention && config.rope.partial_rotary_factor != 1.0) {
        fields.refuse("partial_rotary_factor", "latent attention rotates all of qk_rope_head_dim");
    }
    if (family.sliding_theta == 0.0) return;
    // One that is null is that of the other layers.
    const auto found = fields.json().find(family.sliding_theta_key);
    const bool is_null = found != fields.json().end() && found->is_null();
    const double local = fields.number(family.sliding_theta_key, 1.0, kMaxTheta)
                             .value_or(is_null ? theta : family.sliding_theta);
    const auto parameters = fields.object("rope_parameters");
    if (family.scales_sliding_rope || (parameters && parameters->has("sliding_attention"))) {
        config.sliding_rope = read_rope_config(fields, "sliding_attention", local, model, unused);
    } else {
        config.sliding_rope.emplace();
        config.sliding_rope->theta = local;
    }
}

// Which layers have experts. `absent`: those before them, where no key says it.
std::vector<bool> read_sparse_layers(const ConfigFields& fields, int64_t absent,
                                     const ModelConfig& config) {
    std::vector<bool> sparse;
    if (const auto types = fields.texts("mlp_layer_types")) {
        for (const std::string& type : *types) {
            if (type != "sparse" && type != "dense") {
                fields.refuse("mlp_layer_types", fmt::format("layers of type {} are not supported",
                                                             quoted_for_message(type)));
            }
            sparse.push_back(type == "sparse");
        }
        if (std::ssize(sparse) != config.num_layers) {
            fields.refuse("mlp_layer_types",
                          fmt::format("{} layers are expected", config.num_layers));
        }
        fields.find("first_k_dense_replace");  // says what the list says
        return sparse;
    }
    const int64_t step =
        any_integer(fields, {"decoder_sparse_step", "interleave_moe_layer_step"}, 1, kMaxLayers)
            .value_or(1);
    const int64_t first =
        any_integer(fields, {"first_k_dense_replace", "num_dense_layers"}, 0, kMaxLayers)
            .value_or(absent);
    // ERNIE 4.5's, which has -1 for the last layer.
    const int64_t last = fields.integer("moe_layer_end_index", -1, kMaxLayers).value_or(-1);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
        sparse.push_back(layer >= first && (layer + 1) % step == 0 && (last < 0 || layer <= last));
    }
    if (fields.has("moe_layers")) {
        sparse.assign(sparse.size(), false);
        for (const int64_t layer : fields.integers("moe_layers")) {
            if (layer >= 0 && layer < config.num_layers) sparse[static_cast<size_t>(layer)] = true;
        }
    }
    for (const int64_t layer : fields.integers("mlp_only_layers")) {
        if (layer < 0 || layer >= config.num_layers) {
            fields.refuse("mlp_only_layers", "it names a layer that is not there");
        }
        sparse[static_cast<size_t>(layer)] = false;
    }
    return sparse;
}

// Refuses a word that is none of those that `known` has, parted by spaces. Returns the first of
// them where there is none.
std::string read_word(const ConfigFields& fields, const char* key, std::string_view known) {
    const std::string word =
        fields.text(key).value_or(std::string(known.substr(0, known.find(' '))));
    if (!contains_word(known, word)) {
        fields.refuse(key, fmt::format("known to this model are: {}", known));
    }
    return word;
}

// How DeepSeek's models choose experts; whether they do so by groups.
bool read_choice(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    if (family.router_scores.empty()) return true;
    read_word(fields, "scoring_func", family.router_scores);
    const std::string method = read_word(fields, "topk_method", family.choice_methods);
    config.groups_by_best = method == "group_limited_greedy";
    if (fields.integer("moe_layer_freq", 1, kMaxLayers).value_or(1) != 1) {
        fields.refuse("moe_layer_freq", "only 1 is supported: experts in every layer");
    }
    // Known to the family, though they have no meaning then.
    for (const char* key : {"n_group", "topk_group"}) fields.find(key);
    return method != "greedy";
}

// Groups of experts, and how the chosen ones are weighted.
void read_routing(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    config.experts_per_token =
        any_integer(fields, {"num_experts_per_tok", "top_k_experts"}, 1, config.num_experts)
            .value_or(std::min(family.experts_per_token, config.num_experts));
    if (config.experts_per_token == 0) {
        fields.refuse("num_experts_per_tok", "a model with experts needs it");
    }
    config.normalize_expert_weights =
        fields.boolean("norm_topk_prob").value_or(family.normalizes_experts);
    if (config.normalize_expert_weights && contains_word(family.choice_methods, "greedy")) {
        // transformers passes it over; others scale the sum to 1, or to routed_scaling_factor.
        fields.refuse("norm_topk_prob", "it means different things to those that run this model");
    }
    config.expert_weight_scale =
        fields.number("routed_scaling_factor", 0.0, 1e6).value_or(family.expert_weight_scale);
    if (!read_choice(fields, family, config)) return;
    const int64_t absent = std::min(family.expert_groups, config.num_experts);
    config.num_expert_groups = fields.integer("n_group", 1, config.num_experts).value_or(absent);
    if (config.num_experts % config.num_expert_groups != 0) {
        fields.refuse("n_group", fmt::format("it must divide the {} experts", config.num_experts));
    }
    config.expert_groups_per_token =
        fields.integer("topk_group", 1, config.num_expert_groups)
            .value_or(std::min(family.expert_groups_per_token, config.num_expert_groups));
    const int64_t open =
        config.num_experts / config.num_expert_groups * config.expert_groups_per_token;
    if (config.experts_per_token > open) {
        fields.refuse("topk_group", fmt::format("its groups have {} experts, fewer than a token "
                                                "chooses",
                                                open));
    }
}

void read_expert_size(const ConfigFields& fields, const FamilyDefaults& family,
                      ModelConfig& config) {
    const auto said = fields.integer("moe_intermediate_size", 1, kMaxIntermediate);
    if (said) config.expert_intermediate_size = *said;
    if (said || family.dense_width_key != nullptr) return;
    config.expert_intermediate_size =
        family.expert_size > 0 ? family.expert_size : config.intermediate_size;
}

void read_sparse_mixer(const ConfigFields& fields, ModelConfig& config) {
    constexpr int64_t kExperts = 2;
    config.router_noise = fields.number("router_jitter_noise", 0.0, 1e6).value_or(0.01);
    if (config.experts_per_token != kExperts) {
        fields.refuse("num_experts_per_tok", "this model chooses two, whatever the key says");
    }
}

void read_experts(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    if (reads_key(family, "enable_moe_block")) {
        config.experts_beside_mlp = fields.boolean("enable_moe_block").value_or(false);
        if (!config.experts_beside_mlp) {
            for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
                if (!fields.has(key)) continue;
                config.notes.push_back(fmt::format("{}: {} is not used: enable_moe_block is false",
                                                   fields.file_name(), key));
            }
            return;
        }
    }
    config.num_experts =
        any_integer(fields, {"num_local_experts", "num_experts", "n_routed_experts"}, 0,
                    kMaxExperts)
            .value_or(family.num_experts);
    if (config.num_experts == 0) {
        if (!family.has_shared_mlp) return;
        fields.find("num_experts_per_tok");  // says nothing then
        config.intermediate_size = fields.integer("shared_intermediate_size", 1, kMaxIntermediate)
                                       .value_or(family.shared_expert_width);
        return;
    }
    read_routing(fields, family, config);
    if (family.has_sparse_mixer) read_sparse_mixer(fields, config);
    read_expert_size(fields, family, config);
    const auto shared_keys = {
        family.has_shared_mlp ? "shared_intermediate_size" : "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size"};
    const int64_t num_shared =
        fields.integer("n_shared_experts", 0, kMaxExperts).value_or(family.num_shared_experts);
    config.shared_expert_intermediate_size =
        any_integer(fields, shared_keys, 0, kMaxIntermediate)
            .value_or(family.shared_expert_width + num_shared * config.expert_intermediate_size);
    config.swiglu_alpha = fields.number("swiglu_alpha", -1e6, 1e6).value_or(config.swiglu_alpha);
    config.swiglu_limit = fields.number("swiglu_limit", 1e-6, 1e30).value_or(config.swiglu_limit);
    config.has_choice_bias = fields.boolean("use_expert_bias").value_or(true);
    config.expert_latent_size = fields.integer("moe_latent_size", 1, kMaxIntermediate).value_or(0);
    if (config.layer_kinds.empty()) {
        config.sparse_layers = read_sparse_layers(fields, family.first_dense_layers, config);
        return;
    }
    for (const LayerKind kind : config.layer_kinds) {
        config.sparse_layers.push_back(kind == LayerKind::experts);
    }
}

void read_dtype(const ConfigFields& fields, ModelConfig& config) {
    for (const char* key : {"torch_dtype", "dtype"}) {
        const auto name = fields.text(key);
        if (!name) continue;
        const bool prefixed = name->starts_with("torch.");
        auto dtype = dtype_from_name(prefixed ? std::string_view(*name).substr(6) : *name);
        if (dtype == DType::f64) {
            config.notes.push_back(fmt::format("{}: {} is float64; weights are read as float32",
                                               fields.file_name(), key));
            dtype = DType::f32;
        }
        if (!dtype || (*dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16)) {
            fields.refuse(key, "float32, bfloat16 or float16 is expected");
        }
        config.dtype = *dtype;
    }
}

// Ids that no vocabulary of this size has cannot be generated; old GPT-2 files name some all the
// same.
void read_special_tokens(const ConfigFields& fields, ModelConfig& config) {
    const auto known = [&](const char* key, int64_t id) {
        if (id >= 0 && (config.vocab_size == 0 || id < config.vocab_size)) return true;
        config.notes.push_back(fmt::format("{}: {} {} is outside the vocabulary of {}; ignored",
                                           fields.file_name(), key, id, config.vocab_size));
        return false;
    };
    for (const int64_t id : fields.integers("eos_token_id")) {
        if (known("eos_token_id", id)) config.eos_token_ids.push_back(static_cast<int32_t>(id));
    }
    const std::vector<int64_t> bos = fields.integers("bos_token_id");
    if (!bos.empty() && known("bos_token_id", bos.front())) {
        config.bos_token_id = static_cast<int32_t>(bos.front());
    }
}

// What only encoders say. The rows of positions before the first one's belong to no position.
void read_encoder(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    const auto positions = fields.text("position_embedding_type");
    if (positions && *positions != "absolute") {
        fields.refuse("position_embedding_type", "only absolute positions are supported");
    }
    if (fields.boolean("is_decoder").value_or(false)) {
        fields.refuse("is_decoder",
                      fmt::format("a {} that generates is not supported", family.model_type));
    }
    if (family.position_buckets > 0) {
        // Distances are told apart by so many, whatever more the table has.
        config.position_buckets =
            fields.integer("relative_attention_num_buckets", family.position_buckets, kMaxVocab)
                .value_or(family.position_buckets);
    }
    config.num_token_types =
        family.token_types == 0
            ? 0
            : fields.integer("type_vocab_size", 1, kMaxVocab).value_or(family.token_types);
    if (!family.positions_after_pad) return;
    config.position_offset = 1 + fields.integer("pad_token_id", 0, kMaxVocab).value_or(1);
    if (config.position_offset >= config.max_positions) {
        fields.refuse(
            "max_position_embeddings",
            fmt::format("{} of them stand before the first position", config.position_offset));
    }
    config.max_positions -= config.position_offset;
}

// The head of classes, where a family leaves it to its config.
void read_classifier(const ConfigFields& fields, ModelConfig& config) {
    const std::string pooling = fields.text("classifier_pooling").value_or("cls");
    if (pooling != "cls" && pooling != "mean") {
        fields.refuse("classifier_pooling", "cls or mean is expected");
    }
    config.classifies_mean = pooling == "mean";
    config.classifier_bias = fields.boolean("classifier_bias").value_or(false);
    config.classifier_activation = fields.text("classifier_activation").value_or("gelu");
}

// Calls `read`; where bad values are absent ones, what it refuses is left unread.
template <typename Read>
void read_section(BadValues bad_values, const Read& read) {
    try {
        read();
    } catch (const Error& error) {
        if (bad_values == BadValues::refused || error.kind() != ErrorKind::bad_data) throw;
    }
}

void read_all(const ConfigFields& fields, const FamilyDefaults& family, BadValues bad_values,
              ModelConfig& config, std::vector<std::string>& unused) {
    const auto section = [&](const auto& read) { read_section(bad_values, read); };
    config.learned_positions = family.learned_positions;
    config.mlp_matrices = family.mlp_matrices;
    config.norm_epsilon = family.epsilon;
    config.activation = family.activation;
    section([&] { read_direction(fields, family, config); });
    section([&] { read_sizes(fields, family, config); });
    section([&] { read_heads(fields, family, config); });
    section([&] { read_switches(fields, family, config); });
    section([&] { read_attention(fields, family, config); });
    section([&] { read_scales(fields, family, config); });
    if (family.rotated == RotatedLayers::listed) {
        section([&] { config.rotated_layers = listed_rotations(fields, config); });
    }
    if (family.rotated == RotatedLayers::none) {
        config.rotated_layers.assign(static_cast<size_t>(config.num_layers), false);
    }
    if (family.rotated == RotatedLayers::by_position_type) {
        section([&] { config.rotated_layers = rotations_by_type(fields, config); });
    }
    section([&] { read_windows(fields, family, config); });
    if (family.has_chunks) section([&] { read_chunks(fields, config); });
    if (family.has_layer_differences) {
        section([&] { read_layer_differences(fields, config); });
    }
    section([&] { read_rope(fields, family, config, unused); });
    section([&] { read_experts(fields, family, config); });
    if (family.state_layers != StateLayerKind::none) {
        section([&] {
            config.linear_attention = read_linear_attention(fields, family, config, unused);
        });
        config.attention_beside_states = family.attention_beside_states;
    }
    if (family.encoder) section([&] { read_encoder(fields, family, config); });
    section([&] { read_classifier(fields, config); });
    section([&] { read_dtype(fields, config); });
    section([&] { read_special_tokens(fields, config); });
    for (const char* key : {"quantization_config", "compression_config"}) {
        config.quantized = config.quantized || fields.has(key);
    }
}

// MLX keeps integers in a form of its own under the name of a dense matrix.
std::string refusal_of_mlx(const ConfigFields& fields) {
    const auto section = fields.json().find("quantization");
    const bool is_mlx = section != fields.json().end() && section->is_object() &&
                        (section->contains("bits") || section->contains("group_size"));
    if (!is_mlx) return {};
    return fmt::format(
        "{}: its weights are quantized in MLX's format (\"quantization\"), which is not read; take "
        "the model that it was made from, or one in the format of compressed-tensors, awq, gptq or "
        "fp8",
        fields.file_name());
}

// Keys that would go unread without a word, and parts that are not used.
void add_notes(const ConfigFields& fields, const nlohmann::json& document,
               std::vector<std::string> unused, ModelConfig& config) {
    const std::string& file = fields.file_name();
    std::string note = unused_keys_note(file, unused);
    if (!note.empty()) config.notes.push_back(std::move(note));
    if (config.is_multi_part) {
        const std::string others = other_parts(document);
        config.notes.push_back(fmt::format("{}: only the text part of the model is used{}{}", file,
                                           others.empty() ? "" : ", not what is described by ",
                                           others));
    }
    if (fields.has("auto_map")) {
        config.notes.push_back(file +
                               ": auto_map names code of the checkpoint's own, which is "
                               "never run; the built-in model is used");
    }
}

void drop_head(const std::string& file, ModelConfig& config) {
    config.drops_head = true;
    config.labels.clear();
    config.notes.push_back(fmt::format("{}: {} is used without its own head, which makes no text",
                                       file, config.architecture));
}

void read_architecture(const nlohmann::json& document, const ConfigFields& fields,
                       const FamilyDefaults& family, FamilyTable families, ModelConfig& config) {
    const Architecture architecture = resolve_architecture(document, fields, family, families);
    config.architecture = architecture.name;
    config.text_architecture = architecture.text;
    // Of a refused model it is not known: the refusal is reported instead.
    config.generates = architecture.generates || !architecture.refusal.empty();
    config.is_multi_part = architecture.is_multi_part;
    const std::string mlx = refusal_of_mlx(fields);
    config.refusal = architecture.refusal.empty() ? mlx : architecture.refusal;
    config.quantized = !mlx.empty();
    if (architecture.classifies) {
        read_section(fields.bad_values(), [&] {
            LabelConfig labels = read_label_config(fields);
            config.labels = std::move(labels.labels);
            config.label_function = labels.function;
        });
    }
    if (architecture.drops_head) drop_head(fields.file_name(), config);
}

nlohmann::json parse_document(const std::string& json, const std::string& file_name) {
    nlohmann::json document = parse_json(json, file_name);
    if (!document.is_object()) {
        throw Error(ErrorKind::bad_data, file_name + ": is not a JSON object");
    }
    return document;
}

// Old names of keys, which count as read.
void rename_keys(const FamilyDefaults& family, const ConfigFields& whole,
                 nlohmann::json& settings) {
    for_each_word(family.renamed_keys, [&](std::string_view words) {
        const std::string old(words.substr(0, words.find('=')));
        if (!whole.has(old.c_str())) return;
        settings[std::string(words.substr(old.size() + 1))] = settings[old];
    });
}

void check_only_values(const FamilyDefaults& family, const ConfigFields& fields) {
    for_each_word(family.only_values, [&](std::string_view words) {
        const std::string key(words.substr(0, words.find('=')));
        const std::string_view value = words.substr(key.size() + 1);
        const nlohmann::json* const said = fields.find(key.c_str());
        if (said == nullptr || *said == nlohmann::json::parse(value)) return;
        fields.refuse(key.c_str(), fmt::format("only {} is supported", value));
    });
}

// A list of equal values becomes that value.
void read_uniform_keys(const FamilyDefaults& family, const ConfigFields& whole,
                       nlohmann::json& settings) {
    for_each_word(family.uniform_keys, [&](std::string_view word) {
        const std::string key(word);
        const nlohmann::json* const said = whole.find(key.c_str());
        if (said == nullptr || !said->is_array()) return;
        const bool is_uniform =
            !said->empty() &&
            std::ranges::all_of(*said, [&](const auto& value) { return value == said->front(); });
        if (!is_uniform) whole.refuse(key.c_str(), "one value for all layers is supported");
        settings[key] = nlohmann::json(said->front());
    });
}

// Reads all sections; with BadValues::absent, those that cannot be read are left as they are.
ModelConfig parse_document(const nlohmann::json& document, const std::string& file_name,
                           FamilyTable families, BadValues bad_values) {
    nlohmann::json settings = text_settings(document);
    ModelConfig config;
    const ConfigFields whole(settings, file_name, bad_values);
    config.model_type = whole.text("model_type").value_or("");
    const FamilyDefaults* family = &find_family(families, config.model_type, "");
    if (family->model_type.empty()) {
        const auto names = whole.texts("architectures");
        if (names && !names->empty()) family = &family_of_architecture(families, names->front());
    }
    if (config.model_type.empty()) config.model_type = family->model_type;
    read_architecture(document, whole, *family, families, config);
    if (!config.refusal.empty()) bad_values = BadValues::absent;

    read_uniform_keys(*family, whole, settings);
    rename_keys(*family, whole, settings);
    if (!family->model_type.empty()) {
        for (const std::string& key : foreign_keys(families, *family)) settings.erase(key);
    }
    const bool has_rope = whole.has("rope_parameters") || whole.has("rope_scaling");
    if (family->rope != nullptr && !has_rope) {
        settings["rope_parameters"] = nlohmann::json::parse(family->rope);
    }
    const std::string rope_note = choose_rope_form(*family, settings);
    if (!rope_note.empty()) config.notes.push_back(file_name + ": " + rope_note);
    const ConfigFields fields(settings, file_name, bad_values);
    check_only_values(*family, fields);
    std::vector<std::string> unused;
    read_all(fields, *family, bad_values, config, unused);

    KeySet asked = fields.asked();
    asked.insert(whole.asked().begin(), whole.asked().end());
    auto unread = unused_config_keys(text_section(document), asked, *family, families);
    if (config.is_multi_part) std::erase_if(unread, is_of_other_part);
    unused.insert(unused.begin(), unread.begin(), unread.end());
    if (!config.refusal.empty()) unused.clear();
    add_notes(whole, document, std::move(unused), config);
    return config;
}

bool stores_tensor(const std::filesystem::path& directory, std::string_view name) {
    const Checkpoint checkpoint = Checkpoint::open(directory);
    return std::ranges::any_of(checkpoint.names(),
                               [&](std::string_view stored) { return stored.ends_with(name); });
}

// Of classes: decoders call it score, encoders classifier.
bool stores_classes(const std::filesystem::path& directory) {
    return stores_tensor(directory, "score.weight") ||
           stores_tensor(directory, "classifier.weight") ||
           stores_tensor(directory, "classifier.out_proj.weight");
}

}  // namespace

ModelConfig parse_model_config(const std::string& json, const std::string& file_name,
                               FamilyTable families) {
    ModelConfig config =
        parse_document(parse_document(json, file_name), file_name, families, BadValues::refused);
    config.raw_json = json;
    return config;
}

ModelConfig read_model_config(const std::filesystem::path& directory, FamilyTable families) {
    require_config(directory);
    const std::filesystem::path path = directory / "config.json";
    ModelConfig config =
        parse_model_config(read_file(path, kMaxConfigBytes), path.string(), families);
    // The file may have its output matrix in addition to the head of its task.
    const bool has_other_head = config.drops_head || !config.labels.empty();
    const bool is_stored = has_other_head && Checkpoint::is_present(directory);
    if (is_stored && !config.encoder && !config.generates) {
        config.generates = stores_tensor(directory, "lm_head.weight");
    }
    // A file that only says that it classifies.
    if (is_stored && !config.labels.empty() && !stores_classes(directory)) {
        drop_head(path.string(), config);
    }
    for (std::string& note : quantization_notes(directory)) config.notes.push_back(std::move(note));
    if (std::string head = why_no_model_but_draft_head(directory); !head.empty()) {
        config.refusal = std::move(head);
    }
    return config;
}

ModelConfig describe_model_config(const std::filesystem::path& file, FamilyTable families) {
    const std::string json = read_file(file, kMaxConfigBytes);
    const nlohmann::json document = parse_document(json, file.string());
    try {
        return parse_model_config(json, file.string(), families);
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::bad_data) throw;
        ModelConfig config = parse_document(document, file.string(), families, BadValues::absent);
        config.raw_json = json;
        if (config.refusal.empty()) config.refusal = error.what();
        return config;
    }
}

int64_t ModelConfig::full_head_dim() const {
    for (size_t layer = 0; layer < layer_heads.size(); ++layer) {
        if (!is_windowed(layer)) return layer_heads[layer].head_dim;
    }
    return head_dim;
}

std::optional<int32_t> ModelConfig::shared_layer(size_t layer) const {
    const auto first = static_cast<size_t>(num_layers - num_sharing_layers);
    if (layer < first) return std::nullopt;
    for (size_t source = first; source > 0; --source) {
        if (is_windowed(source - 1) == is_windowed(layer)) return static_cast<int32_t>(source - 1);
    }
    return std::nullopt;
}

int64_t ModelConfig::of_linear_attention() const {
    const LinearAttentionConfig& linear = *linear_attention;
    if (linear.kind == StateLayerKind::short_conv) {
        return hidden_size * (4 * hidden_size + linear.conv_taps);
    }
    const int64_t keys = linear.key_heads * linear.key_dim;
    const int64_t values = linear.value_heads * linear.value_dim;
    if (linear.gate_rank > 0) {
        return hidden_size * (2 * keys + 2 * values + linear.value_heads + 2 * linear.gate_rank) +
               linear.gate_rank * (keys + values) + (2 * keys + values) * linear.conv_taps;
    }
    return hidden_size * (2 * keys + 3 * values + 2 * linear.value_heads) +
           (2 * keys + values) * linear.conv_taps;
}

int64_t ModelConfig::of_latent_attention() const {
    const LatentAttentionConfig& latent = *latent_attention;
    const int64_t queries = num_heads * latent.query_dim();
    const int64_t of_queries = latent.query_rank == 0 ? hidden_size * queries
                                                      : latent.query_rank * (hidden_size + queries);
    return of_queries + hidden_size * latent.cached() +
           latent.latent_dim * num_heads * (latent.plain_dim + latent.value_dim) +
           num_heads * latent.value_dim * hidden_size;
}

int64_t ModelConfig::of_attention(size_t layer) const {
    const int64_t of_state = is_linear(layer) ? of_linear_attention() : 0;
    if (!has_attention(layer)) return of_state;
    if (latent_attention) return of_latent_attention();
    const int64_t query = num_heads * head_dim;
    const int64_t key_value = num_kv_heads * head_dim;
    return of_state + hidden_size * (query + 2 * key_value) + query * hidden_size;
}

int64_t ModelConfig::of_mlp(size_t layer) const {
    if (!has_mlp(layer)) return 0;
    if (sparse_layers.empty() || !sparse_layers[layer]) {
        return mlp_matrices * hidden_size * intermediate_size;
    }
    return mlp_matrices * (num_experts * expert_channels() * expert_intermediate_size +
                           hidden_size * shared_expert_intermediate_size);
}

int64_t ModelConfig::estimated_parameters() const {
    int64_t total = vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2);
    for (int64_t layer = 0; layer < num_layers; ++layer) {
        total += of_attention(static_cast<size_t>(layer)) + of_mlp(static_cast<size_t>(layer)) +
                 2 * hidden_size;
    }
    return total + hidden_size;
}

}  // namespace nvllm
