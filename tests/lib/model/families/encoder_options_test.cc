// What config.json says of encoders: windows both ways, RoPE of two kinds, heads of classes.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/model/registry.h"

namespace nvllm {
namespace {

using nlohmann::json;

ModelConfig parse(const char* model_type, const json& changes) {
    json document = {{"model_type", model_type},
                     {"vocab_size", 1000},
                     {"hidden_size", 64},
                     {"intermediate_size", 128},
                     {"num_hidden_layers", 4},
                     {"num_attention_heads", 8},
                     {"head_dim", 8},
                     {"max_position_embeddings", 256}};
    if (!changes.is_null()) document.update(changes);
    return parse_model_config(document.dump(), "config.json");
}

std::string refusal(const char* model_type, const json& changes) {
    try {
        parse(model_type, changes);
        return "nothing";
    } catch (const Error& error) {
        return error.what();
    }
}

ModelConfig gemma(const json& changes) {
    json all = {{"architectures", {"Gemma3TextModel"}},
                {"num_key_value_heads", 2},
                {"sliding_window", 16},
                {"sliding_window_pattern", 2},
                {"use_bidirectional_attention", true}};
    if (!changes.is_null()) all.update(changes);
    return parse("gemma3_text", all);
}

TEST_CASE("encoder options: Gemma 3 whose positions see later ones") {
    const ModelConfig config = gemma({});
    CHECK(config.encoder);
    CHECK_FALSE(config.generates);
    CHECK(config.text_architecture == "Gemma3ForCausalLM");
    CHECK(config.layer_windows == std::vector<int64_t>{9, 0, 9, 0});
    CHECK(config.notes.empty());
    CHECK(gemma({{"sliding_window", 7}}).layer_windows == std::vector<int64_t>{4, 0, 4, 0});
    // A window that no position can leave is none, and still has its RoPE.
    const ModelConfig wide = gemma({{"sliding_window", 512}});
    CHECK(wide.layer_windows == std::vector<int64_t>(4, 0));
    CHECK(wide.is_windowed(0));
    const ModelConfig decoder = gemma({{"use_bidirectional_attention", false}});
    CHECK_FALSE(decoder.encoder);
    CHECK(decoder.layer_windows == std::vector<int64_t>{16, 0, 16, 0});
    const ModelConfig classes = gemma({{"architectures", {"Gemma3ForSequenceClassification"}}});
    CHECK(classes.encoder);
    CHECK(classes.labels.size() == 2);
    for (const json& bad : std::vector<json>{{{"architectures", {"Gemma3ForCausalLM"}}},
                                             {{"use_bidirectional_attention", "all"}},
                                             {{"use_bidirectional_attention", 1}}}) {
        CAPTURE(bad.dump());
        CHECK_THROWS_AS(gemma(bad), Error);
    }
    CHECK(refusal("gemma2",
                  {{"architectures", {"Gemma2Model"}}, {"use_bidirectional_attention", true}})
              .find("see later ones") != std::string::npos);
}

TEST_CASE("encoder options: ModernBERT's windows and RoPE") {
    const ModelConfig config = parse("modernbert", {{"local_attention", 16}});
    CHECK(config.encoder);
    CHECK_FALSE(config.generates);
    CHECK(config.activation == "gelu");
    CHECK(config.norm_epsilon == 1e-5);
    CHECK_FALSE(config.norm_bias);
    CHECK_FALSE(config.learned_positions);
    CHECK(config.layer_windows == std::vector<int64_t>{0, 9, 9, 0});
    CHECK(config.rope.theta == 160000.0);
    REQUIRE(config.sliding_rope);
    CHECK(config.sliding_rope->theta == 10000.0);
    CHECK(parse("modernbert", {}).layer_windows == std::vector<int64_t>{0, 65, 65, 0});
    CHECK(parse("modernbert", {{"global_attn_every_n_layers", 2}}).layer_windows ==
          std::vector<int64_t>{0, 65, 0, 65});
    CHECK(parse("modernbert",
                {{"layer_types",
                  {"sliding_attention", "full_attention", "full_attention", "sliding_attention"}}})
              .layer_windows == std::vector<int64_t>{65, 0, 0, 65});
    const ModelConfig own =
        parse("modernbert", {{"global_rope_theta", 5000.0}, {"local_rope_theta", 70.0}});
    CHECK(own.rope.theta == 5000.0);
    CHECK(own.sliding_rope->theta == 70.0);
    // One that is null is that of the other layers.
    CHECK(parse("modernbert", {{"local_rope_theta", nullptr}}).sliding_rope->theta == 160000.0);
    const json by_layer = {{"full_attention", {{"rope_theta", 3000.0}, {"rope_type", "default"}}},
                           {"sliding_attention", {{"rope_theta", 20.0}, {"rope_type", "default"}}}};
    const ModelConfig nested = parse("modernbert", {{"rope_parameters", by_layer}});
    CHECK(nested.rope.theta == 3000.0);
    CHECK(nested.sliding_rope->theta == 20.0);
    const json linear = {{"rope_type", "linear"}, {"factor", 4.0}};
    for (const json& scaled : {json{{"rope_scaling", linear}},
                               json{{"rope_scaling", linear}, {"rope_parameters", by_layer}}}) {
        const ModelConfig both = parse("modernbert", scaled);
        CHECK(both.rope.factor == 4.0);
        CHECK(both.sliding_rope->factor == 4.0);
        CHECK(both.sliding_rope->theta < both.rope.theta);
    }
    CHECK_THROWS_AS(parse("modernbert", {{"layer_types", {"full_attention"}}}), Error);
}

TEST_CASE("encoder options: ModernBERT's biases and head of classes") {
    const ModelConfig config = parse("modernbert", {{"norm_bias", true},
                                                    {"attention_bias", true},
                                                    {"mlp_bias", true},
                                                    {"classifier_bias", true},
                                                    {"classifier_activation", "silu"},
                                                    {"classifier_pooling", "mean"}});
    CHECK(config.norm_bias);
    CHECK(config.attention_bias);
    CHECK(config.attention_output_bias);
    CHECK(config.mlp_bias);
    CHECK(config.classifier_bias);
    CHECK(config.classifier_activation == "silu");
    CHECK(config.classifies_mean);
    CHECK_FALSE(parse("modernbert", {}).classifies_mean);
    CHECK(refusal("modernbert", {{"classifier_pooling", "max"}}).find("cls or mean") !=
          std::string::npos);
}

// As the first published files have it.
TEST_CASE("encoder options: ModernBERT's files give no note") {
    const ModelConfig config = parse("modernbert", {{"architectures", {"ModernBertForMaskedLM"}},
                                                    {"classifier_dropout", 0.0},
                                                    {"cls_token_id", 281},
                                                    {"decoder_bias", true},
                                                    {"deterministic_flash_attn", false},
                                                    {"embedding_dropout", 0.0},
                                                    {"global_attn_every_n_layers", 3},
                                                    {"gradient_checkpointing", false},
                                                    {"initializer_cutoff_factor", 2.0},
                                                    {"layer_norm_eps", 1e-5},
                                                    {"mlp_dropout", 0.0},
                                                    {"norm_eps", 1e-5},
                                                    {"position_embedding_type", "absolute"},
                                                    {"reference_compile", nullptr},
                                                    {"repad_logits_with_grad", false},
                                                    {"sparse_pred_ignore_index", -100},
                                                    {"sparse_prediction", false}});
    CHECK(config.refusal.empty());
    CHECK(config.notes == std::vector<std::string>{});
}

TEST_CASE("encoder options: MPNet's positions and biases by distance") {
    const ModelConfig config = parse("mpnet", {{"max_position_embeddings", 258}});
    CHECK(config.encoder);
    CHECK(config.learned_positions);
    CHECK(config.max_positions == 256);
    CHECK(config.position_offset == 2);
    CHECK(config.position_buckets == 32);
    CHECK(config.num_token_types == 0);
    // The class counts positions from its own number on.
    CHECK(parse("mpnet", {{"pad_token_id", 7}}).position_offset == 2);
    CHECK(parse("mpnet", {{"relative_attention_num_buckets", 40}}).position_buckets == 40);
    CHECK_THROWS_AS(parse("mpnet", {{"relative_attention_num_buckets", 16}}), Error);
    CHECK(parse("bert", {}).position_buckets == 0);
}

}  // namespace
}  // namespace nvllm
