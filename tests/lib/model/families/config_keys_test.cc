// Every key of every family's config.json, as the newest transformers has them
// (scripts/fixtures/make_config_keys.py): none changes the answer without a word.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/checkpoint/harmless_keys.h"
#include "lib/checkpoint/model_config.h"
#include "lib/checkpoint/text_part.h"
#include "lib/model/registry.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using nlohmann::json;

std::vector<json> default_configs() {
    const auto file = test::source_path("tests/fixtures/config_keys.json");
    return json::parse(read_file(file))["configs"].get<std::vector<json>>();
}

ModelConfig parse(const json& document) {
    return parse_model_config(document.dump(), "config.json");
}

std::string text_of(const RopeConfig& rope) {
    return fmt::format(
        "{} {} {} {} {} {} {} {} {} {} {} {} {} {}", rope.theta, rope.partial_rotary_factor,
        rope.kind, rope.factor, rope.low_frequency_factor, rope.high_frequency_factor,
        rope.original_max_positions, rope.attention_factor.value_or(-1.0), rope.beta_fast,
        rope.truncate, fmt::join(rope.short_factor, ","), fmt::join(rope.long_factor, ","),
        rope.alpha.value_or(-1.0), rope.query_beta);
}

// All that a model is made from.
std::string text_of(const ModelConfig& config) {
    std::string text =
        fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", config.text_architecture, config.refusal,
                    config.vocab_size, config.hidden_size, config.intermediate_size,
                    config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim,
                    config.max_positions, config.norm_epsilon, config.activation);
    text += fmt::format(" {} {} {} {} {} {} {} {} {} {}", config.generates, config.drops_head,
                        config.position_offset, config.num_token_types, config.tie_word_embeddings,
                        config.attention_bias, config.attention_output_bias, config.mlp_bias,
                        fmt::join(config.layer_windows, ","), text_of(config.rope));
    text += fmt::format(" {} {} {} {} {} {} {} {} {} {}", config.attention_scale.value_or(-1.0),
                        config.attention_scale_by_layer, config.attention_soft_cap,
                        config.logit_soft_cap, config.num_experts, config.experts_per_token,
                        config.expert_intermediate_size, config.normalize_expert_weights,
                        fmt::join(config.sparse_layers, ","), dtype_name(config.dtype));
    if (config.linear_attention) {
        const LinearAttentionConfig& linear = *config.linear_attention;
        text +=
            fmt::format(" {} {} {} {} {} {} {} {}", linear.key_heads, linear.value_heads,
                        linear.key_dim, linear.value_dim, linear.conv_taps,
                        fmt::join(linear.layers, ","), linear.conv_bias, linear.projection_bias);
        text += fmt::format(" {} {} {} {} {} {} {} {}", linear.output_bias, linear.activation,
                            linear.has_norm, linear.norm_before_gate, linear.least_step,
                            linear.in_scale, linear.out_scale, fmt::join(linear.part_scales, ","));
    }
    for (const LayerKind kind : config.layer_kinds) text += fmt::format(" {}", int(kind));
    text +=
        fmt::format(" {} {} {} {} {} {} {}", config.attention_beside_states,
                    config.attention_in_scale, config.attention_out_scale, config.mlp_gate_scale,
                    config.mlp_out_scale, config.expert_latent_size, config.head_bias);
    text += fmt::format(" {} {} {} {} {}", config.router_noise, config.attention_chunk,
                        fmt::join(config.chunked_layers, ","), config.plain_query_beta,
                        config.plain_query_positions);
    for (const LayerHeads& heads : config.layer_heads) {
        text += fmt::format(" {}x{}", heads.kv_heads, heads.head_dim);
    }
    text += fmt::format(" {} {} {} {} {} {}", config.values_are_keys, config.num_sharing_layers,
                        config.sharing_mlp_factor, config.layer_input_size,
                        config.experts_beside_mlp, config.has_choice_bias);
    if (config.latent_attention) {
        const LatentAttentionConfig& latent = *config.latent_attention;
        text += fmt::format(" {} {} {} {} {} {} {}", latent.query_rank, latent.latent_dim,
                            latent.plain_dim, latent.rope_dim, latent.value_dim, latent.interleaved,
                            config.groups_by_best);
    }
    text += fmt::format(" {} {} {} {} {} {} {} {} {} {} {}", config.embedding_scale,
                        config.residual_scale, config.logit_scale,
                        fmt::join(config.rotated_layers, ","), config.query_key_norm,
                        config.shared_expert_intermediate_size, config.num_expert_groups,
                        config.expert_groups_per_token, config.expert_weight_scale,
                        config.swiglu_alpha, config.swiglu_limit);
    text += fmt::format(" {} {} {}", config.has_post_norms, config.is_parallel,
                        config.scales_embedding);
    text += fmt::format(" {} {} {} {} {} {}", config.encoder, config.classifies_mean,
                        config.classifier_bias, config.classifier_activation, config.norm_bias,
                        config.position_buckets);
    return text + fmt::format(" {} {} {} {} {}", fmt::join(config.eos_token_ids, ","),
                              config.bos_token_id.value_or(-1), config.quantized,
                              config.sliding_rope ? text_of(*config.sliding_rope) : "",
                              fmt::join(config.notes, "\n"));
}

// Another value of the same kind.
json another(const json& value) {
    if (value.is_boolean()) return !value.get<bool>();
    if (value.is_number_integer()) return value.get<int64_t>() + 2;
    if (value.is_number()) return value.get<double>() * 0.5 + 0.25;
    if (value.is_string()) return "something else";
    if (value.is_null()) return 3;
    return value.is_array() ? json{"something else"}
                            : json{{"rope_type", "linear"}, {"rope_theta", 123.0}, {"factor", 2.0}};
}

// The reader changes what it makes of the file, refuses the value or names the key; or the table
// of harmless keys has it.
void check_key(const json& document, const json& changed, const std::string& key,
               const json& section) {
    CAPTURE(document["architectures"][0].get<std::string>());
    CAPTURE(key);
    const ModelConfig before = parse(document);
    const auto& family = find_family(known_families(), before.model_type, "");
    if (unused_config_keys({{key, section[key]}}, {}, family, known_families()).empty()) return;
    try {
        CHECK(text_of(parse(changed)) != text_of(before));
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_data);
    }
}

TEST_CASE("config keys: what every family says by default gives no note") {
    for (const json& document : default_configs()) {
        const ModelConfig config = parse(document);
        CAPTURE(config.architecture);
        CAPTURE(fmt::format("{}", fmt::join(config.notes, "\n")));
        CHECK(config.refusal.empty());
        CHECK(config.notes.size() == (config.is_multi_part ? 1 : 0));
        if (config.is_multi_part)
            CHECK(config.notes[0].find("only the text part") != std::string::npos);
    }
}

// Keys of windows where all positions lie in one, and those that another key decides over.
bool says_nothing_now(const ModelConfig& config, const std::string& key) {
    const bool is_of_windows = key == "sliding_window" || key == "max_window_layers" ||
                               key == "layer_types" || key == "use_sliding_window";
    // Lists of layers decide over these, the number of layers, and mamba_d_ssm.
    const bool is_decided =
        key == "sliding_window_pattern" || key == "no_rope_layer_interval" ||
        key == "interleave_moe_layer_step" || key == "global_attn_every_n_layers" ||
        key == "moe_layer_end_index" ||
        (key == "first_k_dense_replace" && config.text_architecture == "ExaoneMoeForCausalLM") ||
        (key == "mamba_expand" && config.attention_beside_states);
    // Experts are chosen out of all groups.
    const bool is_of_groups = key == "n_group" || key == "topk_group";
    const bool has_groups = config.text_architecture != "DeepseekV2ForCausalLM";
    return (config.sliding_window == 0 && is_of_windows) || is_decided ||
           (is_of_groups && !has_groups) || key == "architectures" || key == "model_type" ||
           (config.is_multi_part && key == "tie_word_embeddings") ||
           (config.is_multi_part && is_of_other_part(key));
}

TEST_CASE("config keys: each is used, harmless or named") {
    size_t num_keys = 0;
    for (const json& document : default_configs()) {
        const bool is_nested = &text_section(document) != &document;
        const ModelConfig config = parse(document);
        for (const auto& [key, value] : text_section(document).items()) {
            if (key.starts_with('_') || key == "transformers_version") continue;
            if (says_nothing_now(config, key)) continue;
            json changed = document;
            (is_nested ? changed["text_config"] : changed)[key] = another(value);
            check_key(document, changed, key, text_section(changed));
            ++num_keys;
        }
    }
    CHECK(num_keys > 500);
}

TEST_CASE("config keys: one that no family knows is named, in every section") {
    for (const json& document : default_configs()) {
        CAPTURE(document["architectures"][0].get<std::string>());
        const bool is_nested = &text_section(document) != &document;
        json changed = document;
        json& section = is_nested ? changed["text_config"] : changed;
        section["attention_dilation"] = 0.5;
        const bool has_rope = section.contains("rope_parameters");
        const bool is_by_layer = has_rope && section["rope_parameters"].contains("full_attention");
        if (is_by_layer) {
            section["rope_parameters"]["full_attention"]["swing"] = 2;
        } else if (has_rope) {
            section["rope_parameters"]["swing"] = 2;
        }
        const std::string notes = fmt::format("{}", fmt::join(parse(changed).notes, "\n"));
        CAPTURE(notes);
        CHECK(notes.find("config.json: not used: attention_dilation") != std::string::npos);
        if (has_rope)
            CHECK(notes.find(is_by_layer ? "rope_parameters.full_attention.swing"
                                         : "rope_parameters.swing") != std::string::npos);
    }
}

TEST_CASE("config keys: those of other families are passed over and named") {
    const auto configs = default_configs();
    const auto llama = std::ranges::find_if(configs, [](const json& config) {
        return config["architectures"][0] == "LlamaForCausalLM";
    });
    REQUIRE(llama != configs.end());
    const std::string before = text_of(parse(*llama));
    for (const auto& [key, value] :
         std::map<std::string, json>{{"partial_rotary_factor", 0.5},
                                     {"query_pre_attn_scalar", 3},
                                     {"attn_logit_softcapping", 4.0},
                                     {"final_logit_softcapping", 4.0},
                                     {"layer_norm_eps", 0.5},
                                     {"num_experts", 4},
                                     {"sliding_window", 7},
                                     {"scale_attn_weights", false},
                                     {"rope_local_base_freq", 2.0},
                                     {"hidden_activation", "relu"},
                                     {"use_bidirectional_attention", true}}) {
        CAPTURE(key);
        json changed = *llama;
        changed[key] = value;
        ModelConfig config = parse(changed);
        CHECK(config.notes == std::vector<std::string>{"config.json: not used: " + key});
        config.notes.clear();
        CHECK(text_of(config) == before);
    }
}

}  // namespace
}  // namespace nvllm
