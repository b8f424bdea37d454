// What config.json says of single layers: rotation, windows, experts, multipliers.
#include <doctest/doctest.h>

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
}

}  // namespace
}  // namespace nvllm
