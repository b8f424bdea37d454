// What config.json says of single layers: rotation, windows, experts, multipliers.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/model/registry.h"

namespace nvllm {
namespace {

using nlohmann::json;

ModelConfig parse(const char* model_type, const json& changes) {
    json document = {
        {"model_type", model_type}, {"vocab_size", 1000},     {"hidden_size", 64},
        {"intermediate_size", 128}, {"num_hidden_layers", 4}, {"num_attention_heads", 8},
        {"num_key_value_heads", 2}, {"head_dim", 8},          {"max_position_embeddings", 256}};
    if (!changes.is_null()) document.update(changes);
    return parse_model_config(document.dump(), "config.json");
}

const std::vector<bool> kAll = {};

TEST_CASE("layer options: rotation that a list, an interval or windows decide") {
    CHECK(parse("llama", {}).rotated_layers == kAll);
    CHECK(parse("smollm3", {}).rotated_layers == std::vector<bool>{true, true, true, false});
    CHECK(parse("smollm3", {{"no_rope_layer_interval", 2}}).rotated_layers ==
          std::vector<bool>{true, false, true, false});
    CHECK(parse("smollm3", {{"no_rope_layers", {0, 1, 1, 1}}}).rotated_layers ==
          std::vector<bool>{false, true, true, true});
    CHECK_THROWS_AS(parse("smollm3", {{"no_rope_layers", {0, 1}}}), Error);

    const std::vector<bool> three_of_four = {true, true, true, false};
    CHECK(parse("cohere2", {}).rotated_layers == three_of_four);
    CHECK(parse("cohere2", {{"sliding_window", nullptr}}).rotated_layers ==
          std::vector<bool>(4, false));
    CHECK(parse("exaone4", {}).rotated_layers == three_of_four);
    CHECK(parse("exaone4", {{"sliding_window", nullptr}}).rotated_layers == kAll);
    // A window that no position can leave is none, and still decides.
    const ModelConfig wide = parse("exaone4", {{"sliding_window", 4096}});
    CHECK(wide.layer_windows == std::vector<int64_t>(4, 0));
    CHECK(wide.rotated_layers == three_of_four);
}

TEST_CASE("layer options: windows that a switch decides") {
    const json switched = {{"use_sliding_window", true}, {"sliding_window", 16}};
    CHECK(parse("smollm3", {{"sliding_window", 16}}).layer_windows == std::vector<int64_t>(4, 0));
    CHECK(parse("smollm3", switched).layer_windows == std::vector<int64_t>{0, 0, 0, 16});
    CHECK(parse("qwen2_moe", switched).layer_windows == std::vector<int64_t>{16, 0, 16, 0});
    CHECK(parse("gpt_oss", {{"sliding_window", 16}}).layer_windows ==
          std::vector<int64_t>{16, 0, 16, 0});
    CHECK(parse("olmo3", {{"sliding_window", 16}}).layer_windows ==
          std::vector<int64_t>{16, 16, 16, 0});
}

TEST_CASE("layer options: a RoPE of layers with windows, and one for parts of heads") {
    const json yarn = {
        {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
    const ModelConfig olmo = parse("olmo3", {{"sliding_window", 16}, {"rope_scaling", yarn}});
    REQUIRE(olmo.sliding_rope);
    CHECK(olmo.rope.kind == "yarn");
    CHECK(olmo.sliding_rope->kind == "default");
    CHECK(olmo.sliding_rope->theta == 5e5);

    CHECK(parse("glm4", {}).rope.partial_rotary_factor == 0.5);
    CHECK(parse("glm4", {{"partial_rotary_factor", 0.25}}).rope.partial_rotary_factor == 0.25);
    CHECK(parse("minimax_m2", {{"rotary_dim", 2}}).rope.partial_rotary_factor == 0.25);
    CHECK(parse("ministral3", {}).rope.query_beta == 0.1);
    const json alpha = {{"rope_type", "dynamic"}, {"factor", 1.0}, {"alpha", 1000.0}};
    CHECK(parse("hunyuan_v1_dense", {{"rope_scaling", alpha}}).rope.alpha == 1000.0);
}

TEST_CASE("layer options: experts of GLM-4.5") {
    const json experts = {{"n_routed_experts", 8},
                          {"num_experts_per_tok", 3},
                          {"n_shared_experts", 2},
                          {"moe_intermediate_size", 16},
                          {"n_group", 4},
                          {"topk_group", 2},
                          {"first_k_dense_replace", 2},
                          {"routed_scaling_factor", 2.5}};
    const ModelConfig config = parse("glm4_moe", experts);
    CHECK(config.shared_expert_intermediate_size == 32);
    CHECK(config.num_expert_groups == 4);
    CHECK(config.expert_groups_per_token == 2);
    CHECK(config.expert_weight_scale == 2.5);
    CHECK(config.sparse_layers == std::vector<bool>{false, false, true, true});
    json bad = experts;
    bad["n_group"] = 3;
    CHECK_THROWS_AS(parse("glm4_moe", bad), Error);
    // Two experts in the only open group, of which a token would choose three.
    bad["n_group"] = 4;
    bad["topk_group"] = 1;
    CHECK_THROWS_AS(parse("glm4_moe", bad), Error);
}

TEST_CASE("layer options: Granite 4's Mamba-2, RoPE and MLPs") {
    const json sizes = {{"mamba_n_heads", 8}, {"mamba_n_groups", 2}, {"mamba_d_state", 16}};
    const auto granite = [&](const json& changes) {
        json all = sizes;
        all.update(changes);
        return parse("granitemoehybrid", all);
    };
    const json types = {"mamba", "attention", "linear_attention", "full_attention"};
    const ModelConfig config = granite(
        {{"layer_types", types}, {"num_local_experts", 0}, {"shared_intermediate_size", 96}});
    REQUIRE(config.linear_attention);
    const LinearAttentionConfig& mamba = *config.linear_attention;
    CHECK(mamba.kind == StateLayerKind::mamba2);
    CHECK(mamba.layers == std::vector<bool>{true, false, true, false});
    CHECK(mamba.value_dim == 16);  // 2 * 64 / 8
    CHECK(mamba.conv_bias);
    CHECK(config.intermediate_size == 96);
    CHECK(config.rotated_layers == std::vector<bool>(4, false));
    CHECK(granite({{"position_embedding_type", "rope"}}).rotated_layers ==
          std::vector<bool>(4, true));
    const ModelConfig sparse = granite({{"shared_intermediate_size", 96}});
    CHECK(sparse.num_experts == 8);
    CHECK(sparse.expert_intermediate_size == 128);
    CHECK(sparse.shared_expert_intermediate_size == 96);
    const json infinity = {{"__float__", "Infinity"}};
    CHECK(granite({{"time_step_limit", {0.0, infinity}}, {"mamba_d_head", "auto"}}).num_layers ==
          4);
    for (const json& bad : std::vector<json>{{{"mamba_d_head", 8}},
                                             {{"mamba_n_heads", 7}},
                                             {{"mamba_n_groups", 3}},
                                             {{"mamba_d_state", 0}},
                                             {{"mamba_expand", int64_t{1} << 40}},
                                             {{"time_step_limit", {0.0, 0.1}}},
                                             {{"position_embedding_type", "alibi"}},
                                             {{"layer_types", {"mamba"}}}}) {
        CAPTURE(bad.dump());
        CHECK_THROWS_AS(granite(bad), Error);
    }
}

TEST_CASE("layer options: Falcon-H1's widths, norms and multipliers") {
    const auto falcon = [&](const json& changes) {
        json all = {{"mamba_n_heads", 8}, {"mamba_n_groups", 2}, {"mamba_d_ssm", 96}};
        if (!changes.is_null()) all.update(changes);
        return parse("falcon_h1", all);
    };
    const ModelConfig config = falcon({{"key_multiplier", 0.5},
                                       {"lm_head_multiplier", 0.25},
                                       {"attention_in_multiplier", 3},
                                       {"attention_out_multiplier", 4},
                                       {"mlp_multipliers", {5, 6}},
                                       {"ssm_multipliers", {1, 2, 3, 4, 5}},
                                       {"ssm_in_multiplier", 7},
                                       {"ssm_out_multiplier", 8},
                                       {"projectors_bias", true},
                                       {"mamba_rms_norm", true}});
    REQUIRE(config.linear_attention);
    const LinearAttentionConfig& mamba = *config.linear_attention;
    CHECK(mamba.value_dim == 12);
    CHECK(mamba.layers == std::vector<bool>(4, true));
    CHECK(config.has_attention(0));
    CHECK(config.has_mlp(0));
    CHECK(mamba.has_norm);
    CHECK(mamba.norm_before_gate);
    CHECK_FALSE(mamba.projection_bias);
    CHECK(mamba.output_bias);
    CHECK(mamba.in_scale == 7);
    CHECK(mamba.out_scale == 8);
    CHECK(mamba.part_scales == std::vector<double>{1, 2, 3, 4, 5});
    CHECK(config.attention_scale == doctest::Approx(0.5 / std::sqrt(8.0)));
    CHECK(config.logit_scale == 0.25);
    CHECK(config.attention_in_scale == 3);
    CHECK(config.attention_out_scale == 4);
    CHECK(config.mlp_gate_scale == 5);
    CHECK(config.mlp_out_scale == 6);
    CHECK_FALSE(falcon({}).linear_attention->has_norm);
    // By the expansion.
    CHECK(falcon({{"mamba_d_ssm", nullptr}}).linear_attention->value_dim == 16);
    for (const json& bad : std::vector<json>{{{"mlp_multipliers", {1.0}}},
                                             {{"ssm_multipliers", {1.0, 2.0}}},
                                             {{"mamba_d_ssm", 100}},
                                             {{"mamba_d_head", 13}},
                                             {{"time_step_limit", {0.1, 0.2}}}}) {
        CAPTURE(bad.dump());
        CHECK_THROWS_AS(falcon(bad), Error);
    }
}

TEST_CASE("layer options: Nemotron-H's layers of one part, by words, letters and older keys") {
    const auto nemotron = [&](const json& changes) {
        json all = {{"mamba_num_heads", 8}, {"num_hidden_layers", nullptr}};
        if (!changes.is_null()) all.update(changes);
        return parse("nemotron_h", all);
    };
    const json words = {"mamba", "mlp", "full_attention", "linear_attention", "moe"};
    const ModelConfig config = nemotron({{"layers_block_type", words}});
    CHECK(config.num_layers == 5);
    CHECK(config.linear_attention->layers == std::vector<bool>{true, false, false, true, false});
    CHECK(config.sparse_layers == std::vector<bool>{false, false, false, false, true});
    CHECK(config.has_attention(2));
    CHECK_FALSE(config.has_attention(0));
    CHECK_FALSE(config.has_attention(1));
    CHECK(config.has_mlp(1));
    CHECK(config.has_mlp(4));
    CHECK_FALSE(config.has_mlp(3));
    CHECK_FALSE(config.rotates(2));
    CHECK(config.activation == "relu2");
    CHECK(config.linear_attention->activation == "silu");
    CHECK(config.linear_attention->least_step == 1e-3);
    CHECK(config.expert_channels() == 64);
    const ModelConfig letters =
        nemotron({{"hybrid_override_pattern", "M-*ME"}, {"num_hidden_layers", 5}});
    CHECK(letters.layer_kinds == config.layer_kinds);
    CHECK(letters.notes.empty());
    CHECK(nemotron({{"layers_block_type", words}, {"num_hidden_layers", 7}}).notes.size() == 1);
    CHECK(nemotron({}).num_layers == 4);
    CHECK(nemotron({{"mamba_n_groups", 2}, {"n_groups", 4}}).linear_attention->key_heads == 2);
    CHECK(nemotron({{"moe_latent_size", 24}}).expert_channels() == 24);
    for (const json& bad : std::vector<json>{{{"layers_block_type", {"mlp", "lstm"}}},
                                             {{"layers_block_type", json::array()}},
                                             {{"hybrid_override_pattern", "MX"}},
                                             {{"n_groups", 3}},
                                             {{"moe_latent_size", 0}}}) {
        CAPTURE(bad.dump());
        CHECK_THROWS_AS(nemotron(bad), Error);
    }
}

TEST_CASE("layer options: Llama 4's chunks, growing queries and experts") {
    const auto llama = [&](const json& changes) {
        json all = {{"intermediate_size_mlp", 200}};
        if (!changes.is_null()) all.update(changes);
        return parse("llama4_text", all);
    };
    const ModelConfig config = llama({});
    const std::vector<bool> three_of_four = {true, true, true, false};
    CHECK(config.rotated_layers == three_of_four);
    CHECK(config.chunked_layers == three_of_four);
    CHECK(config.attention_chunk == 8192);
    CHECK(config.plain_query_beta == 0.1);
    CHECK(config.plain_query_positions == 8192);
    CHECK(config.query_key_norm);
    CHECK(config.intermediate_size == 200);
    CHECK(config.expert_intermediate_size == 128);
    CHECK(config.shared_expert_intermediate_size == 128);
    CHECK(config.sparse_layers == std::vector<bool>(4, true));
    CHECK(llama({{"attention_chunk_size", nullptr}}).attention_chunk == 0);
    CHECK(llama({{"attn_temperature_tuning", false}}).plain_query_beta == 0.0);
    CHECK(llama({{"attn_temperature_tuning", 4}}).plain_query_beta == 0.1);
    CHECK(llama({{"interleave_moe_layer_step", 2}}).sparse_layers ==
          std::vector<bool>{false, true, false, true});
    CHECK(llama({{"moe_layers", {2}}}).sparse_layers ==
          std::vector<bool>{false, false, true, false});
    CHECK(llama({{"no_rope_layers", json::array()}}).rotated_layers == three_of_four);
    const json types = {"full_attention", "chunked_attention", "full_attention", "full_attention"};
    CHECK(llama({{"layer_types", types}}).chunked_layers ==
          std::vector<bool>{false, true, false, false});
    for (const json& bad :
         std::vector<json>{{{"layer_types", {"chunked_attention"}}},
                           {{"layer_types", {"sliding_attention"}}},
                           {{"layer_types", types}, {"attention_chunk_size", nullptr}},
                           {{"floor_scale", 0}}}) {
        CAPTURE(bad.dump());
        CHECK_THROWS_AS(llama(bad), Error);
    }
}

TEST_CASE("layer options: Phi-3.5-MoE's noise, biases and factors of RoPE") {
    const json rope = {{"rope_type", "longrope"},
                       {"short_factor", {1.0, 1.0, 1.0, 1.0}},
                       {"long_factor", {1, 2, 3, 4}},
                       {"short_mscale", 1.2},
                       {"long_mscale", 1.2},
                       {"factor", 2.0},
                       {"original_max_position_embeddings", 64}};
    const ModelConfig config = parse("phimoe", {{"lm_head_bias", true}, {"rope_scaling", rope}});
    CHECK(config.head_bias);
    CHECK(config.router_noise == 0.01);
    CHECK(config.experts_per_token == 2);
    CHECK(config.rope.attention_factor == 1.2);
    CHECK_THROWS_AS(parse("phimoe", {{"num_experts_per_tok", 3}}), Error);
    for (const char* const key : {"short_mscale", "long_mscale"}) {
        json bad = rope;
        bad[key] = 1.5;
        CHECK_THROWS_AS(parse("phimoe", {{"rope_scaling", bad}}), Error);
        bad.erase(key);
        CHECK_THROWS_AS(parse("phimoe", {{"rope_scaling", bad}}), Error);
    }
}

TEST_CASE("layer options: LFM2's convolutions and widths") {
    const json list = {{"full_attn_idxs", {1, 3}}, {"block_auto_adjust_ff_dim", false}};
    const ModelConfig config = parse("lfm2", list);
    REQUIRE(config.linear_attention);
    CHECK(config.linear_attention->kind == StateLayerKind::short_conv);
    CHECK(config.linear_attention->layers == std::vector<bool>{true, false, true, false});
    CHECK(config.linear_attention->conv_taps == 3);
    CHECK(config.intermediate_size == 128);
    // Two thirds of 128, rounded up.
    CHECK(parse("lfm2", {{"block_multiple_of", 16}}).intermediate_size == 96);
    CHECK(parse("lfm2", {{"block_multiple_of", 16}, {"block_ff_dim", 192}}).intermediate_size ==
          128);
    // Where nothing is said, all layers have attention.
    CHECK(parse("lfm2", {}).linear_attention->layers == std::vector<bool>(4, false));
    CHECK_FALSE(parse("lfm2", {{"tie_embedding", false}}).tie_word_embeddings);
    const ModelConfig sparse = parse("lfm2_moe", {{"num_dense_layers", 3}, {"num_experts", 4}});
    CHECK(sparse.sparse_layers == std::vector<bool>{false, false, false, true});
    CHECK(sparse.has_choice_bias);
    CHECK_THROWS_AS(parse("lfm2", {{"full_attn_idxs", {4}}}), Error);
    CHECK_THROWS_AS(parse("lfm2", {{"conv_L_cache", 1}}), Error);
    CHECK_THROWS_AS(parse("lfm2", {{"block_ffn_dim_multiplier", 1e5}}), Error);
    CHECK_THROWS_AS(parse("lfm2", {{"block_ffn_dim_multiplier", 1e-6}}), Error);
}

TEST_CASE("layer options: Gemma 4's heads by layer, shared keys and values, and inputs of layers") {
    const json types = {"sliding_attention", "full_attention", "sliding_attention",
                        "full_attention"};
    const auto gemma = [&](const json& changes) {
        json all = {{"layer_types", types},
                    {"global_head_dim", 16},
                    {"vocab_size", 1000},
                    {"vocab_size_per_layer_input", 1000}};
        if (!changes.is_null()) all.update(changes);
        return parse("gemma4_text", all);
    };
    const ModelConfig config = gemma({});
    CHECK(config.heads_of(0).head_dim == 8);
    CHECK(config.heads_of(1).head_dim == 16);
    CHECK(config.heads_of(1).kv_heads == 2);
    CHECK(config.full_head_dim() == 16);
    CHECK(config.rope.kind == "proportional");
    REQUIRE(config.sliding_rope);
    CHECK(config.sliding_rope->theta == 1e4);
    // No position can leave a window of 512, which still says what kind a layer is.
    CHECK(config.layer_windows == std::vector<int64_t>(4, 0));
    CHECK(config.windowed_layers == std::vector<bool>{true, false, true, false});
    CHECK(config.layer_input_size == 256);
    CHECK(gemma({{"hidden_size_per_layer_input", nullptr}}).layer_input_size == 0);

    const ModelConfig shared = gemma({{"num_kv_shared_layers", 2}, {"use_double_wide_mlp", true}});
    CHECK_FALSE(shared.shared_layer(1));
    CHECK(shared.shared_layer(2) == 0);
    CHECK(shared.shared_layer(3) == 1);
    CHECK(shared.sharing_mlp_factor == 2);

    const ModelConfig equal =
        gemma({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}});
    CHECK(equal.values_are_keys);
    CHECK(equal.heads_of(1).kv_heads == 1);
    CHECK(equal.heads_of(0).kv_heads == 2);
    const ModelConfig unlike = gemma({{"num_global_key_value_heads", 1}});
    CHECK(unlike.heads_of(1).kv_heads == 2);
    CHECK(unlike.notes.size() == 1);
    CHECK(config.notes.empty());
    const json by_layer = {{"1", {{"head_dim", 32}}}, {"3", {{"head_dim", 32}}}};
    CHECK(gemma({{"per_layer_config", by_layer}}).full_head_dim() == 32);

    CHECK(gemma({{"enable_moe_block", false}, {"num_experts", 4}}).num_experts == 0);
    const ModelConfig sparse = gemma({{"enable_moe_block", true},
                                      {"num_experts", 4},
                                      {"top_k_experts", 2},
                                      {"moe_intermediate_size", 24}});
    CHECK(sparse.experts_beside_mlp);
    CHECK(sparse.experts_per_token == 2);
    CHECK(gemma({{"use_bidirectional_attention", "vision"}}).num_layers == 4);
    for (const json& bad :
         std::vector<json>{{{"num_kv_shared_layers", 3}},
                           {{"num_kv_shared_layers", 4}},
                           {{"vocab_size_per_layer_input", 999}},
                           {{"global_head_dim", 15}},
                           {{"global_head_dim", 0}},
                           {{"per_layer_config", {{"1", {{"head_dim", 32}}}}}},
                           {{"per_layer_config", {{"7", {{"head_dim", 32}}}}}},
                           {{"per_layer_config", {{"one", {{"head_dim", 32}}}}}},
                           {{"per_layer_config", {{"1", {{"sliding_window", 32}}}}}},
                           {{"per_layer_config", {{"1", 5}}}},
                           {{"hidden_size_per_layer_input", 1 << 20}},
                           {{"use_bidirectional_attention", "all"}}}) {
        CAPTURE(bad.dump());
        CHECK_THROWS_AS(gemma(bad), Error);
    }
}

TEST_CASE("layer options: Kimi Linear's layers, by its own lists and by types") {
    const json published = {{"num_key_value_heads", 8},
                            {"head_dim", 72},
                            {"kv_lora_rank", 20},
                            {"q_lora_rank", nullptr},
                            {"qk_nope_head_dim", 10},
                            {"qk_rope_head_dim", 6},
                            {"v_head_dim", 14},
                            {"mla_use_nope", true},
                            {"model_max_length", 512},
                            {"num_experts", 8},
                            {"num_experts_per_token", 3},
                            {"num_shared_experts", 2},
                            {"num_expert_group", 2},
                            {"topk_group", 1},
                            {"moe_intermediate_size", 16},
                            {"moe_renormalize", false},
                            {"linear_attn_config",
                             {{"full_attn_layers", {4}},
                              {"kda_layers", {1, 2, 3}},
                              {"head_dim", 10},
                              {"num_heads", 3},
                              {"short_conv_kernel_size", 3}}}};
    const auto kimi = [&](const json& changes) {
        json document = published;
        if (!changes.is_null()) document.update(changes);
        return parse("kimi_linear", document);
    };
    const ModelConfig config = kimi({});
    REQUIRE(config.linear_attention);
    CHECK(config.linear_attention->kind == StateLayerKind::kimi_delta);
    CHECK(config.linear_attention->layers == std::vector<bool>{true, true, true, false});
    CHECK(config.linear_attention->value_heads == 3);
    CHECK(config.linear_attention->key_dim == 10);
    CHECK(config.linear_attention->gate_rank == 10);
    CHECK(config.linear_attention->conv_taps == 3);
    CHECK(config.rotated_layers == std::vector<bool>(4, false));
    CHECK(config.head_dim == 6);
    CHECK(config.max_positions == 512);
    CHECK(config.experts_per_token == 3);
    CHECK(config.num_expert_groups == 2);
    CHECK(config.shared_expert_intermediate_size == 32);
    CHECK_FALSE(config.normalize_expert_weights);
    CHECK(config.notes.empty());
    const ModelConfig by_types =
        kimi({{"linear_attn_config", nullptr},
              {"linear_num_heads", 5},
              {"linear_head_dim", 12},
              {"layer_types",
               {"linear_attention", "full_attention", "full_attention", "linear_attention"}}});
    CHECK(by_types.linear_attention->layers == std::vector<bool>{true, false, false, true});
    CHECK(by_types.linear_attention->value_heads == 5);
    CHECK(kimi({{"linear_attn_config", nullptr}}).linear_attention->layers ==
          std::vector<bool>(4, true));
    json own = published["linear_attn_config"];
    own["norm"] = "layer";
    const ModelConfig unread = kimi({{"linear_attn_config", own}});
    REQUIRE(unread.notes.size() == 1);
    CHECK(unread.notes[0] == "config.json: not used: linear_attn_config.norm");
    CHECK_THROWS_AS(kimi({{"mla_use_nope", false}}), Error);
    CHECK_THROWS_AS(kimi({{"use_grouped_topk", false}}), Error);
    for (const json& layers : {json{1, 2}, json{1, 2, 3, 4}, json{1, 2, 5}, json{0, 1, 2, 3}}) {
        json bad = published["linear_attn_config"];
        bad["kda_layers"] = layers;
        CAPTURE(layers.dump());
        CHECK_THROWS_AS(kimi({{"linear_attn_config", bad}}), Error);
    }
}

TEST_CASE("layer options: experts in some layers, and one number for all layers") {
    const json ernie = {{"moe_num_experts", 8},
                        {"moe_k", 2},
                        {"moe_layer_start_index", 1},
                        {"moe_layer_end_index", 2},
                        {"use_bias", true}};
    const ModelConfig some = parse("ernie4_5_moe", ernie);
    CHECK(some.sparse_layers == std::vector<bool>{false, true, true, false});
    CHECK(some.num_experts == 8);
    CHECK(some.experts_per_token == 2);
    CHECK(some.head_bias);
    CHECK(parse("ernie4_5_moe", {{"moe_layer_end_index", -1}}).sparse_layers ==
          std::vector<bool>{false, true, true, true});

    const json hunyuan = {{"num_experts", 8}, {"moe_topk", {2, 2, 2, 2}}};
    CHECK(parse("hunyuan_v1_moe", hunyuan).experts_per_token == 2);
    CHECK_THROWS_AS(parse("hunyuan_v1_moe", {{"num_experts", 8}, {"moe_topk", {2, 2, 1, 2}}}),
                    Error);
    CHECK_THROWS_AS(parse("hunyuan_v1_moe", {{"num_experts", json::array()}}), Error);
    CHECK_THROWS_AS(parse("hunyuan_v1_moe", {{"use_cla", true}}), Error);
}

TEST_CASE("layer options: settings that only one value is supported of") {
    CHECK_NOTHROW(parse("olmo", {{"clip_qkv", nullptr}}));
    CHECK_THROWS_AS(parse("olmo", {{"clip_qkv", 8.0}}), Error);
    CHECK_NOTHROW(parse("cohere", {{"use_qk_norm", false}}));
    CHECK_THROWS_AS(parse("cohere", {{"use_qk_norm", true}}), Error);
    CHECK_THROWS_AS(parse("phi", {{"qk_layernorm", true}}), Error);
    CHECK_NOTHROW(parse("starcoder2", {{"norm_type", "layer_norm"}}));
    CHECK_THROWS_AS(parse("starcoder2", {{"norm_type", "rms_norm"}}), Error);
    CHECK_THROWS_AS(parse("afmoe", {{"num_expert_groups", 2}}), Error);
    // What a class passes over though it would matter is named.
    const ModelConfig mamba =
        parse("mamba2", {{"num_heads", 8}, {"head_dim", 16}, {"rms_norm", false}});
    REQUIRE(mamba.notes.size() == 1);
    CHECK(mamba.notes[0].find("rms_norm") != std::string::npos);
}

TEST_CASE("layer options: layers of states alone") {
    const json sizes = {{"num_heads", 8}, {"head_dim", 16}, {"n_groups", 2}, {"state_size", 10}};
    const ModelConfig config = parse("mamba2", sizes);
    CHECK(config.layer_kinds == std::vector<LayerKind>(4, LayerKind::state));
    CHECK(config.linear_attention->layers == std::vector<bool>(4, true));
    CHECK(config.linear_attention->value_dim == 16);
    CHECK(config.linear_attention->key_heads == 2);
    CHECK(config.max_positions == 1048576);
    const ModelConfig bamba = parse("bamba", {{"mamba_n_heads", 8}, {"attn_layer_indices", {1}}});
    CHECK(bamba.linear_attention->layers == std::vector<bool>{true, false, true, true});
    CHECK_THROWS_AS(parse("bamba", {{"mamba_n_heads", 8}, {"attn_layer_indices", {4}}}), Error);
}

TEST_CASE("layer options: windows from a layer on, and those that a list names") {
    CHECK(parse("dots1", {{"sliding_window", 16}, {"max_window_layers", 3}}).layer_windows ==
          std::vector<int64_t>{0, 0, 0, 16});
    CHECK(parse("mellum", {{"sliding_window", 16}}).layer_windows == std::vector<int64_t>(4, 0));
    const json types = {"full_attention", "sliding_attention", "sliding_attention",
                        "full_attention"};
    CHECK(parse("mellum", {{"sliding_window", 16}, {"layer_types", types}}).layer_windows ==
          std::vector<int64_t>{0, 16, 16, 0});
}

TEST_CASE("layer options: multipliers") {
    const ModelConfig granite = parse("granite", {{"logits_scaling", 8.0},
                                                  {"embedding_multiplier", 12},
                                                  {"residual_multiplier", 0.25},
                                                  {"attention_multiplier", 0.5}});
    CHECK(granite.logit_scale == 0.125);
    CHECK(granite.embedding_scale == 12.0);
    CHECK(granite.residual_scale == 0.25);
    CHECK(granite.attention_scale == 0.5);
    CHECK(parse("granite", {}).attention_scale == 1.0);
    CHECK(parse("cohere2", {}).logit_scale == 0.0625);
    CHECK(parse("llama", {{"logit_scale", 2.0}}).logit_scale == 1.0);
    CHECK(parse("hyperclovax", {{"logits_scaling", 8.0}}).logit_scale == 8.0);
    CHECK(parse("afmoe", {{"mup_enabled", true}}).scales_embedding);
    CHECK_FALSE(parse("llama", {{"mup_enabled", true}}).scales_embedding);
}

}  // namespace
}  // namespace nvllm
