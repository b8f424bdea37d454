// config.json of every family, its oddities, and its absurdities.
#include "lib/checkpoint/model_config.h"
#include "lib/model/registry.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/error.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using nlohmann::json;

json llama() {
    return {{"model_type", "llama"},
            {"architectures", {"LlamaForCausalLM"}},
            {"vocab_size", 1000},
            {"hidden_size", 64},
            {"intermediate_size", 128},
            {"num_hidden_layers", 4},
            {"num_attention_heads", 8},
            {"num_key_value_heads", 2},
            {"max_position_embeddings", 256}};
}

ModelConfig parse(const json& document) {
    return parse_model_config(document.dump(), "config.json");
}

// The base config of another family with some keys changed; null removes a key.
json changed(json document, const json& changes) {
    for (const auto& [key, value] : changes.items()) {
        if (value.is_null()) {
            document.erase(key);
        } else {
            document[key] = value;
        }
    }
    return document;
}

TEST_CASE("config: layers with linear attention are listed, or all but every nth") {
    const json hybrid = changed(llama(), {{"model_type", "qwen3_5_text"},
                                          {"architectures", {"Qwen3_5ForCausalLM"}},
                                          {"head_dim", 16},
                                          {"linear_num_key_heads", 2},
                                          {"linear_num_value_heads", 6},
                                          {"linear_key_head_dim", 8},
                                          {"linear_value_head_dim", 12},
                                          {"linear_conv_kernel_dim", 3}});
    const ModelConfig every = parse(hybrid);
    REQUIRE(every.linear_attention);
    CHECK(every.linear_attention->layers == std::vector<bool>{true, true, true, false});
    CHECK(every.linear_attention->value_heads == 6);
    CHECK(every.linear_attention->conv_taps == 3);
    CHECK(every.rope.partial_rotary_factor == 0.25);
    CHECK(every.is_linear(0));
    CHECK_FALSE(every.is_linear(3));
    CHECK(parse(changed(hybrid, {{"full_attention_interval", 2}})).linear_attention->layers ==
          std::vector<bool>{true, false, true, false});
    const json types = {"full_attention", "linear_attention", "full_attention", "full_attention"};
    CHECK(parse(changed(hybrid, {{"layer_types", types}})).linear_attention->layers ==
          std::vector<bool>{false, true, false, false});
    CHECK(parse(changed(hybrid, {{"partial_rotary_factor", 0.5}})).rope.partial_rotary_factor ==
          0.5);
    const json rope = {{"rope_type", "default"}, {"partial_rotary_factor", 1.0}};
    CHECK(parse(changed(hybrid, {{"rope_parameters", rope}, {"partial_rotary_factor", 0.5}}))
              .rope.partial_rotary_factor == 1.0);
    const json odd = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
    CHECK_THROWS_AS(parse(changed(hybrid, {{"layer_types", odd}})), Error);
    CHECK_THROWS_AS(parse(changed(hybrid, {{"layer_types", {"full_attention"}}})), Error);
    CHECK_THROWS_AS(parse(changed(hybrid, {{"linear_num_value_heads", 3}})), Error);
    CHECK_THROWS_AS(parse(changed(hybrid, {{"linear_conv_kernel_dim", 1}})), Error);
    CHECK_FALSE(parse(llama()).linear_attention);

    const ModelConfig next = parse(changed(hybrid, {{"model_type", "qwen3_next"},
                                                    {"architectures", {"Qwen3NextForCausalLM"}},
                                                    {"num_experts", 4},
                                                    {"num_experts_per_tok", 2},
                                                    {"mlp_only_layers", {1}}}));
    CHECK(next.num_experts == 4);
    CHECK(next.shared_expert_intermediate_size == 512);
    CHECK(next.expert_intermediate_size == 512);
    CHECK(next.sparse_layers == std::vector<bool>{true, false, true, true});
    CHECK(parse(changed(llama(), {{"shared_expert_intermediate_size", 8}}))
              .shared_expert_intermediate_size == 0);
}

json latent() {
    return changed(llama(), {{"model_type", "deepseek_v3"},
                             {"architectures", {"DeepseekV3ForCausalLM"}},
                             {"num_key_value_heads", nullptr},
                             {"kv_lora_rank", 20},
                             {"qk_nope_head_dim", 10},
                             {"qk_rope_head_dim", 6},
                             {"v_head_dim", 14},
                             {"n_routed_experts", 8},
                             {"num_experts_per_tok", 2},
                             {"topk_group", 2}});
}

TEST_CASE("config: sizes of latent attention, and which experts are chosen") {
    // null is a value here, not an absent key.
    json document = latent();
    document["q_lora_rank"] = nullptr;
    const ModelConfig v3 = parse(document);
    REQUIRE(v3.latent_attention);
    CHECK(v3.latent_attention->query_rank == 0);
    CHECK(v3.latent_attention->cached() == 26);
    CHECK(v3.latent_attention->query_dim() == 16);
    CHECK(v3.latent_attention->interleaved);
    CHECK(v3.head_dim == 6);
    CHECK(v3.num_kv_heads == v3.num_heads);
    CHECK(v3.num_expert_groups == 8);
    CHECK(v3.expert_weight_scale == 2.5);
    CHECK(v3.normalize_expert_weights);
    CHECK_FALSE(v3.groups_by_best);
    CHECK(v3.sparse_layers == std::vector<bool>{false, false, false, true});

    document["q_lora_rank"] = 28;
    const auto with = [&](const char* key, const json& value) {
        json other = document;
        other[key] = value;
        return other;
    };
    CHECK(parse(document).latent_attention->query_rank == 28);
    CHECK_FALSE(parse(with("rope_interleave", false)).latent_attention->interleaved);
    CHECK(parse(with("model_type", "kimi_k2")).text_architecture == "DeepseekV3ForCausalLM");
    for (const auto& [key, value] :
         std::vector<std::pair<const char*, json>>{{"kv_lora_rank", 8190},
                                                   {"kv_lora_rank", 0},
                                                   {"kv_lora_rank", nullptr},
                                                   {"qk_nope_head_dim", 8193},
                                                   {"qk_rope_head_dim", 7},
                                                   {"v_head_dim", -1},
                                                   {"q_lora_rank", int64_t{1} << 40},
                                                   {"q_lora_rank", "many"},
                                                   {"head_dim", 8},
                                                   {"qk_head_dim", 17},
                                                   {"num_key_value_heads", 2},
                                                   {"topk_method", "greedy"},
                                                   {"scoring_func", "softmax"},
                                                   {"moe_layer_freq", 2},
                                                   {"topk_group", 9}}) {
        CAPTURE(key);
        CAPTURE(value.dump());
        CHECK_THROWS_AS(parse(with(key, value)), Error);
    }
    CHECK_THROWS_AS(parse(latent()), Error);  // nothing says what queries are made of

    document["model_type"] = "deepseek_v2";
    document["architectures"] = {"DeepseekV2ForCausalLM"};
    const ModelConfig v2 = parse(document);
    CHECK(v2.num_expert_groups == 1);
    CHECK_FALSE(v2.normalize_expert_weights);
    const ModelConfig limited =
        parse(changed(document, {{"topk_method", "group_limited_greedy"}, {"n_group", 4}}));
    CHECK(limited.num_expert_groups == 4);
    CHECK(limited.groups_by_best);
    CHECK_THROWS_AS(parse(with("topk_method", "noaux_tc")), Error);
    CHECK_THROWS_AS(parse(with("norm_topk_prob", true)), Error);

    document["model_type"] = "glm4_moe_lite";
    document["architectures"] = {"Glm4MoeLiteForCausalLM"};
    document["topk_group"] = 1;
    const json types = {"sparse", "dense", "dense", "sparse"};
    CHECK(parse(document).sparse_layers == std::vector<bool>{false, true, true, true});
    CHECK(parse(with("mlp_layer_types", types)).sparse_layers ==
          std::vector<bool>{true, false, false, true});
    CHECK_THROWS_AS(parse(with("mlp_layer_types", {"sparse", "dense"})), Error);
    CHECK_THROWS_AS(parse(with("mlp_layer_types", {"sparse", "odd", "dense", "dense"})), Error);
    CHECK_THROWS_AS(parse(with("partial_rotary_factor", 0.5)), Error);
}

TEST_CASE("config: llama, and what it leaves unsaid") {
    const ModelConfig config = parse(llama());
    CHECK(config.architecture == "LlamaForCausalLM");
    CHECK(config.vocab_size == 1000);
    CHECK(config.num_kv_heads == 2);
    CHECK(config.head_dim == 8);
    CHECK(config.norm_epsilon == 1e-6);
    CHECK(config.activation == "silu");
    CHECK_FALSE(config.tie_word_embeddings);
    CHECK_FALSE(config.attention_bias);
    CHECK(config.dtype == DType::f32);
    CHECK(config.rope.kind == "default");
    CHECK(config.rope.theta == 10000.0);
    CHECK(config.layer_windows == std::vector<int64_t>{0, 0, 0, 0});
    CHECK(config.eos_token_ids.empty());
    CHECK(config.notes.empty());

    const ModelConfig alike = parse(changed(llama(), {{"num_key_value_heads", nullptr}}));
    CHECK(alike.num_kv_heads == 8);
    const json null_heads = json::parse(llama().dump().insert(1, R"("head_dim":null,)"));
    CHECK(parse(null_heads).head_dim == 8);
    CHECK(parse(changed(llama(), {{"head_dim", 32}})).head_dim == 32);
    const ModelConfig nameless = parse(changed(llama(), {{"architectures", nullptr}}));
    CHECK(nameless.architecture == "LlamaForCausalLM");
}

TEST_CASE("config: parameters of known shapes") {
    // Llama 3.2 1B has 1,235,814,400 parameters.
    const ModelConfig config = parse(changed(llama(), {{"vocab_size", 128256},
                                                       {"hidden_size", 2048},
                                                       {"intermediate_size", 8192},
                                                       {"num_hidden_layers", 16},
                                                       {"num_attention_heads", 32},
                                                       {"num_key_value_heads", 8},
                                                       {"tie_word_embeddings", true}}));
    CHECK(config.estimated_parameters() == 1235814400);
}

TEST_CASE("config: both spellings of types, end tokens as one or many") {
    for (const char* key : {"torch_dtype", "dtype"}) {
        CHECK(parse(changed(llama(), {{key, "bfloat16"}})).dtype == DType::bf16);
        CHECK(parse(changed(llama(), {{key, "torch.float16"}})).dtype == DType::f16);
        CHECK_THROWS_WITH_AS(parse(changed(llama(), {{key, "int8"}})),
                             doctest::Contains("float32, bfloat16 or float16"), Error);
    }
    CHECK(parse(changed(llama(), {{"eos_token_id", 2}})).eos_token_ids == std::vector<int32_t>{2});
    CHECK(parse(changed(llama(), {{"eos_token_id", {7, 9}}})).eos_token_ids ==
          std::vector<int32_t>{7, 9});
}

TEST_CASE("config: special tokens outside the vocabulary are dropped with a note") {
    const ModelConfig config =
        parse(changed(llama(), {{"bos_token_id", 50256}, {"eos_token_id", {5, -1, 4000000000}}}));
    CHECK_FALSE(config.bos_token_id.has_value());
    CHECK(config.eos_token_ids == std::vector<int32_t>{5});
    REQUIRE(config.notes.size() == 3);
    CHECK(config.notes[2].find("bos_token_id 50256 is outside the vocabulary of 1000") !=
          std::string::npos);
}

TEST_CASE("config: code of the checkpoint's own is ignored and noted") {
    const ModelConfig config =
        parse(changed(llama(), {{"auto_map", {{"AutoModel", "modeling_evil.Model"}}}}));
    REQUIRE(config.notes.size() == 1);
    CHECK(config.notes[0].find("never run") != std::string::npos);
}

TEST_CASE("config: GPT-2 has names of its own") {
    const ModelConfig config = parse({{"model_type", "gpt2"},
                                      {"vocab_size", 53},
                                      {"n_embd", 64},
                                      {"n_head", 4},
                                      {"n_layer", 2},
                                      {"n_positions", 512},
                                      {"n_inner", nullptr},
                                      {"layer_norm_epsilon", 1e-3},
                                      {"activation_function", "gelu"},
                                      {"scale_attn_weights", false},
                                      {"scale_attn_by_inverse_layer_idx", true}});
    CHECK(config.architecture == "GPT2LMHeadModel");
    CHECK(config.hidden_size == 64);
    CHECK(config.intermediate_size == 256);
    CHECK(config.num_kv_heads == 4);
    CHECK(config.head_dim == 16);
    CHECK(config.max_positions == 512);
    CHECK(config.norm_epsilon == 1e-3);
    CHECK(config.activation == "gelu");
    CHECK(config.tie_word_embeddings);
    CHECK(config.attention_bias);
    CHECK(config.attention_scale == 1.0);
    CHECK(config.attention_scale_by_layer);
}

TEST_CASE("config: Qwen2 has biases and, when switched on, windows from some layer on") {
    const json qwen = changed(
        llama(), {{"model_type", "qwen2"}, {"sliding_window", 32}, {"max_window_layers", 3}});
    const ModelConfig off = parse(qwen);
    CHECK(off.attention_bias);
    CHECK_FALSE(off.attention_output_bias);
    CHECK(off.layer_windows == std::vector<int64_t>{0, 0, 0, 0});
    const ModelConfig on = parse(changed(qwen, {{"use_sliding_window", true}}));
    CHECK(on.layer_windows == std::vector<int64_t>{0, 0, 0, 32});
    const ModelConfig typed = parse(changed(
        qwen, {{"use_sliding_window", true},
               {"layer_types",
                {"sliding_attention", "full_attention", "full_attention", "sliding_attention"}}}));
    CHECK(typed.layer_windows == std::vector<int64_t>{32, 0, 0, 32});
}

TEST_CASE("config: Qwen3, Mistral, Phi-3") {
    const ModelConfig qwen3 = parse(changed(llama(), {{"model_type", "qwen3"}}));
    CHECK(qwen3.head_dim == 128);
    CHECK_FALSE(qwen3.attention_bias);

    const json mistral = changed(llama(), {{"model_type", "mistral"}});
    CHECK(parse(mistral).sliding_window == 0);  // 4096 by default, which 256 positions never leave
    CHECK(parse(changed(mistral, {{"sliding_window", 16}})).layer_windows ==
          std::vector<int64_t>{16, 16, 16, 16});
    const json long_mistral = changed(mistral, {{"max_position_embeddings", 32768}});
    CHECK(parse(long_mistral).sliding_window == 4096);
    CHECK(parse(json::parse(long_mistral.dump().insert(1, R"("sliding_window":null,)")))
              .sliding_window == 0);

    const json factors(4, 1.5);
    const ModelConfig phi3 = parse(changed(
        llama(),
        {{"model_type", "phi3"},
         {"original_max_position_embeddings", 128},
         {"rope_scaling", {{"type", "su"}, {"short_factor", factors}, {"long_factor", factors}}}}));
    CHECK(phi3.rope.kind == "longrope");
    CHECK(phi3.rope.factor == 2.0);
    CHECK(phi3.rope.original_max_positions == 128);
    CHECK(phi3.rope.long_factor.size() == 4);
}

TEST_CASE("config: Gemma 2 and 3 alternate windows; Gemma 3 nests its text model") {
    const json gemma2 = changed(llama(), {{"model_type", "gemma2"},
                                          {"sliding_window", 64},
                                          {"query_pre_attn_scalar", 64},
                                          {"attn_logit_softcapping", 50.0},
                                          {"final_logit_softcapping", 30.0}});
    const ModelConfig two = parse(gemma2);
    CHECK(two.layer_windows == std::vector<int64_t>{64, 0, 64, 0});
    CHECK(two.attention_scale == 0.125);
    CHECK(two.attention_soft_cap == 50.0);
    CHECK(two.logit_soft_cap == 30.0);
    CHECK(two.tie_word_embeddings);
    CHECK(two.head_dim == 256);

    const json gemma3 = {{"model_type", "gemma3"},
                         {"architectures", {"Gemma3ForConditionalGeneration"}},
                         {"eos_token_id", {1, 106}},
                         {"torch_dtype", "bfloat16"},
                         {"vision_config", {{"hidden_size", 1152}}},
                         {"text_config",
                          {{"model_type", "gemma3_text"},
                           {"hidden_size", 2560},
                           {"intermediate_size", 10240},
                           {"num_hidden_layers", 8},
                           {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                           {"sliding_window", 1024}}}};
    const ModelConfig three = parse(gemma3);
    CHECK(three.architecture == "Gemma3ForConditionalGeneration");
    CHECK(three.model_type == "gemma3_text");
    CHECK(three.hidden_size == 2560);
    CHECK(three.vocab_size == 262208);
    CHECK(three.num_heads == 8);
    CHECK(three.num_kv_heads == 4);
    CHECK(three.eos_token_ids == std::vector<int32_t>{1, 106});
    CHECK(three.dtype == DType::bf16);
    CHECK(three.rope.theta == 1e6);
    CHECK(three.rope.kind == "linear");
    REQUIRE(three.sliding_rope.has_value());
    CHECK(three.sliding_rope->theta == 10000.0);
    CHECK(three.sliding_rope->kind == "default");
    CHECK(three.layer_windows == std::vector<int64_t>{1024, 1024, 1024, 1024, 1024, 0, 1024, 1024});
}

TEST_CASE("config: rope settings nested by layer type") {
    const ModelConfig config = parse(changed(
        llama(),
        {{"model_type", "gemma3_text"},
         {"rope_parameters",
          {{"full_attention", {{"rope_type", "linear"}, {"rope_theta", 5e5}, {"factor", 4}}},
           {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}}}}));
    CHECK(config.rope.theta == 5e5);
    CHECK(config.rope.factor == 4.0);
    REQUIRE(config.sliding_rope.has_value());
    CHECK(config.sliding_rope->theta == 3e4);
}

TEST_CASE("config: experts") {
    const ModelConfig mixtral = parse(
        changed(llama(),
                {{"model_type", "mixtral"}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}}));
    CHECK(mixtral.num_experts == 8);
    CHECK(mixtral.experts_per_token == 2);
    CHECK(mixtral.expert_intermediate_size == 128);
    CHECK(mixtral.normalize_expert_weights);
    CHECK(mixtral.sparse_layers == std::vector<bool>(4, true));

    const ModelConfig qwen = parse(changed(llama(), {{"model_type", "qwen3_moe"},
                                                     {"num_experts", 16},
                                                     {"num_experts_per_tok", 4},
                                                     {"moe_intermediate_size", 32},
                                                     {"norm_topk_prob", true},
                                                     {"decoder_sparse_step", 2},
                                                     {"mlp_only_layers", {3}}}));
    CHECK(qwen.expert_intermediate_size == 32);
    CHECK(qwen.sparse_layers == std::vector<bool>{false, true, false, false});
}

json bert() {
    return {{"model_type", "bert"},
            {"architectures", {"BertModel"}},
            {"vocab_size", 1000},
            {"hidden_size", 64},
            {"intermediate_size", 128},
            {"num_hidden_layers", 4},
            {"num_attention_heads", 8},
            {"max_position_embeddings", 514},
            {"position_embedding_type", "absolute"}};
}

TEST_CASE("config: encoders") {
    const ModelConfig config = parse(bert());
    CHECK(config.encoder);
    CHECK_FALSE(config.generates);
    CHECK(config.learned_positions);
    CHECK(config.max_positions == 514);
    CHECK(config.position_offset == 0);
    CHECK(config.num_token_types == 2);
    CHECK(config.norm_epsilon == 1e-12);
    CHECK(config.activation == "gelu");
    const json roberta = changed(bert(), {{"model_type", "roberta"},
                                          {"architectures", {"RobertaForMaskedLM"}},
                                          {"type_vocab_size", 1},
                                          {"layer_norm_eps", 1e-5},
                                          {"pad_token_id", 1}});
    for (const char* type : {"roberta", "xlm-roberta"}) {
        const ModelConfig other = parse(changed(roberta, {{"model_type", type}}));
        CHECK(other.max_positions == 512);
        CHECK(other.position_offset == 2);
        CHECK(other.num_token_types == 1);
        CHECK(other.norm_epsilon == 1e-5);
    }
    CHECK(parse(changed(roberta, {{"pad_token_id", nullptr}})).position_offset == 2);
    const ModelConfig distilbert = parse({{"model_type", "distilbert"},
                                          {"vocab_size", 1000},
                                          {"dim", 64},
                                          {"hidden_dim", 128},
                                          {"n_layers", 3},
                                          {"n_heads", 4},
                                          {"activation", "relu"}});
    CHECK(distilbert.architecture == "DistilBertModel");
    CHECK(distilbert.hidden_size == 64);
    CHECK(distilbert.intermediate_size == 128);
    CHECK(distilbert.num_layers == 3);
    CHECK(distilbert.head_dim == 16);
    CHECK(distilbert.activation == "relu");
    CHECK(distilbert.num_token_types == 0);
    CHECK(distilbert.max_positions == 512);
}

TEST_CASE("config: encoders of another kind are refused") {
    const auto refusal = [](const json& changes) {
        try {
            parse(changed(bert(), changes));
            return std::string("nothing");
        } catch (const Error& error) {
            return std::string(error.what());
        }
    };
    CHECK(refusal({{"position_embedding_type", "relative_key"}}).find("only absolute positions") !=
          std::string::npos);
    CHECK(refusal({{"is_decoder", true}}).find("is_decoder") != std::string::npos);
    CHECK(refusal({{"model_type", "roberta"}, {"max_position_embeddings", 2}})
              .find("stand before the first position") != std::string::npos);
    CHECK(refusal({{"type_vocab_size", 0}}).find("type_vocab_size") != std::string::npos);
}

TEST_CASE("config: a decoder's body that was saved by itself does not generate") {
    CHECK(parse(llama()).generates);
    const ModelConfig body = parse(changed(llama(), {{"architectures", {"LlamaModel"}}}));
    CHECK_FALSE(body.generates);
    CHECK_FALSE(body.encoder);
    CHECK(body.num_kv_heads == 2);
    CHECK(parse(changed(llama(), {{"architectures", {"GPT2LMHeadModel"}}})).generates);
}

TEST_CASE("config: absurd values are refused with key, value and limit") {
    struct Bad {
        json changes;
        const char* message;
    };
    const Bad cases[] = {
        {{{"vocab_size", nullptr}}, "\"vocab_size\" is missing; a llama model needs it"},
        {{{"hidden_size", nullptr}}, "\"hidden_size\" is missing"},
        {{{"num_hidden_layers", nullptr}}, "\"num_hidden_layers\" is missing"},
        {{{"num_attention_heads", nullptr}}, "\"num_attention_heads\" is missing"},
        {{{"intermediate_size", nullptr}}, "\"intermediate_size\" is missing"},
        {{{"vocab_size", 1000000000}},
         "\"vocab_size\" is 1000000000; a whole number from 1 to 4194304"},
        {{{"vocab_size", 0}}, "\"vocab_size\" is 0"},
        {{{"vocab_size", -5}}, "\"vocab_size\" is -5"},
        {{{"vocab_size", "many"}}, "\"vocab_size\" is \"many\""},
        {{{"vocab_size", 12.5}}, "\"vocab_size\" is 12.5"},
        {{{"vocab_size", 18446744073709551615u}}, "\"vocab_size\" is 18446744073709551615"},
        {{{"vocab_size", {1}}}, "\"vocab_size\" is a list"},
        {{{"hidden_size", 1 << 30}}, "from 1 to 262144"},
        {{{"num_hidden_layers", 1000000000}}, "from 1 to 1024"},
        {{{"num_attention_heads", 0}}, "\"num_attention_heads\" is 0"},
        {{{"num_attention_heads", 7}}, "\"num_key_value_heads\" is 2; it must divide the 7"},
        {{{"num_attention_heads", 6}}, "\"hidden_size\" is 64; it must be a multiple of the 6"},
        {{{"num_key_value_heads", 3}}, "it must divide the 8 attention heads"},
        {{{"head_dim", 1 << 20}}, "\"head_dim\" is 1048576"},
        {{{"head_dim", 7}}, "rotary embeddings need an even one"},
        {{{"num_attention_heads", 8192}, {"head_dim", 8192}}, "wider than"},
        {{{"intermediate_size", int64_t{1} << 40}}, "\"intermediate_size\""},
        {{{"max_position_embeddings", int64_t{1} << 40}}, "\"max_position_embeddings\""},
        {{{"rms_norm_eps", -1.0}}, "\"rms_norm_eps\" is -1.0"},
        {{{"rope_theta", 0}}, "\"rope_theta\" is 0"},
        {{{"rope_scaling", 3}}, "\"rope_scaling\" is 3; an object is expected"},
        {{{"rope_scaling", {{"type", "mrope"}}}}, "known kinds of RoPE are default, linear"},
        {{{"rope_scaling", {{"type", "linear"}}}}, "\"factor\" is missing"},
        {{{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}, "\"factor\" is 0"},
        {{{"rope_scaling", {{"type", "longrope"}}}}, "a list of 4 factors is expected"},
        {{{"rope_scaling",
           {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 1}}}},
         "above low_freq_factor"},
        {{{"tie_word_embeddings", "yes"}}, "true or false is expected"},
        {{{"architectures", "Llama"}}, "a list of texts is expected"},
        {{{"model_type", 5}}, "a text is expected"},
        {{{"eos_token_id", "two"}}, "a whole number or a list of them"},
        {{{"eos_token_id", {1, "two"}}}, "a whole number or a list of them"},
        {{{"model_type", "mixtral"}, {"num_local_experts", 8}},
         "\"num_experts_per_tok\" is missing"},
        {{{"model_type", "mixtral"}, {"num_local_experts", 8}, {"num_experts_per_tok", 9}},
         "from 1 to 8"},
        {{{"model_type", "gemma2"}, {"use_bidirectional_attention", true}},
         "positions see later ones is not supported"},
        {{{"model_type", "qwen2"},
          {"use_sliding_window", true},
          {"layer_types", {"linear_attention"}}},
         "layers of type \"linear_attention\" are not supported"},
        {{{"model_type", "qwen2"},
          {"use_sliding_window", true},
          {"layer_types", {"full_attention"}}},
         "4 layers are expected"},
    };
    for (const Bad& bad : cases) {
        CAPTURE(bad.changes.dump());
        try {
            parse(changed(llama(), bad.changes));
            FAIL_CHECK("was accepted");
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::bad_data);
            const std::string message = error.what();
            CHECK_MESSAGE(message.find(bad.message) != std::string::npos, message);
            CHECK(message.starts_with("config.json: "));
        }
    }
}

TEST_CASE("config: what is no JSON object is refused") {
    for (const std::string& text :
         {std::string(), std::string("{"), std::string("[]"), std::string("null"),
          std::string("{\"a\":1,}"), std::string(1000, '['), std::string("{\"a\":\"\xff\"}")}) {
        CAPTURE(text);
        CHECK_THROWS_AS(parse_model_config(text, "config.json"), Error);
    }
}

// Families that are not read must still be describable, so that the answer is "not supported" and
// not "key missing".
TEST_CASE("config: unknown families make no demands") {
    const ModelConfig config = parse(
        {{"model_type", "mamba"}, {"architectures", {"MambaForCausalLM"}}, {"hidden_size", 64}});
    CHECK(config.architecture == "MambaForCausalLM");
    CHECK(config.num_heads == 0);
    CHECK(config.text_architecture.empty());
    CHECK(config.refusal.find("neither is its model_type \"mamba\"") != std::string::npos);
    CHECK(config.notes.empty());
    // What cannot be read of them is left unread.
    const ModelConfig odd = parse({{"model_type", "mamba"},
                                   {"num_hidden_layers", 1000000},
                                   {"intermediate_size", {1, 2}},
                                   {"hidden_size", 48},
                                   {"num_attention_heads", 7},
                                   {"rope_parameters", {{"rope_type", "spiral"}}}});
    CHECK(odd.num_layers == 0);
    CHECK(odd.hidden_size == 48);
}

TEST_CASE("config: a family's file with a fault can still be described") {
    const test::TemporaryFolder folder;
    folder.write("config.json", changed(llama(), {{"num_key_value_heads", 3},
                                                  {"rope_scaling", {{"type", "spiral"}}}})
                                    .dump());
    CHECK_THROWS_AS(read_model_config(folder.path()), Error);
    const ModelConfig config = describe_model_config(folder.path() / "config.json");
    CHECK(config.hidden_size == 64);
    CHECK(config.refusal.find("it must divide the 8 attention heads") != std::string::npos);
    folder.write("config.json", "[]");
    CHECK_THROWS_AS(describe_model_config(folder.path() / "config.json"), Error);
}

TEST_CASE("config: which family computes the text, and why none does") {
    struct Row {
        const char* architecture;
        json changes;
        const char* text;  // architecture; empty: none
        bool generates;
        const char* refusal;  // part of it
    };
    const json vision = {{"vision_config", {{"hidden_size", 8}}}};
    const json qwen_text = {{"model_type", "other"},
                            {"text_config", changed(llama(), {{"model_type", "qwen2"}})}};
    const json gemma_text = {{"model_type", "paligemma"},
                             {"text_config", changed(llama(), {{"model_type", "gemma"}})}};
    const Row rows[] = {
        {"LlamaForSequenceClassification", {}, "LlamaForCausalLM", false, ""},
        {"LlamaForTokenClassification",
         {{"tie_word_embeddings", true}},
         "LlamaForCausalLM",
         true,
         ""},
        {"GPT2Model", {}, "GPT2LMHeadModel", false, ""},
        {"MinistralForCausalLM", {{"model_type", "ministral"}}, "MinistralForCausalLM", true, ""},
        {"BertForPreTraining", {{"model_type", "bert"}}, "BertModel", false, ""},
        {"BertLMHeadModel", {{"model_type", "bert"}}, "", false, "write that name into"},
        {"LlavaForConditionalGeneration", qwen_text, "Qwen2ForCausalLM", true, ""},
        {"NewForConditionalGeneration", qwen_text, "Qwen2ForCausalLM", true, ""},
        {"Qwen2VLForConditionalGeneration",
         {{"model_type", "qwen2_vl"}},
         "Qwen2ForCausalLM",
         true,
         ""},
        {"PaliGemmaForConditionalGeneration", gemma_text, "", false, "see each other both ways"},
        {"NewForRetrieval", qwen_text, "", false, "save that part alone"},
        {"MyLlamaForCausalLM", {}, "", false, "weights are those of a plain LlamaForCausalLM"},
        {"OtherForCausalLM",
         {{"model_type", "other"}},
         "",
         false,
         "neither is its model_type \"other\""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.architecture);
        json document = changed(llama(), row.changes);
        document["architectures"] = {row.architecture};
        const ModelConfig config = parse(document);
        CHECK(config.text_architecture == row.text);
        CHECK(config.generates == (row.generates || !config.refusal.empty()));
        CHECK(config.refusal.empty() == (row.refusal[0] == 0));
        CHECK_MESSAGE(config.refusal.find(row.refusal) != std::string::npos, config.refusal);
        CHECK(config.architecture == row.architecture);
    }
}

TEST_CASE("config: the text part says what it has, the whole what it says for all") {
    json document = {{"architectures", {"Mistral3ForConditionalGeneration"}},
                     {"model_type", "mistral3"},
                     {"tie_word_embeddings", true},
                     {"hidden_size", 8},
                     {"dtype", "bfloat16"},
                     {"vision_config", {{"hidden_size", 8}}},
                     {"text_config", changed(llama(), {{"model_type", "mistral"},
                                                       {"tie_word_embeddings", false}})}};
    const ModelConfig config = parse(document);
    CHECK(config.hidden_size == 64);
    CHECK(config.dtype == DType::bf16);
    CHECK(config.tie_word_embeddings);
    CHECK(config.is_multi_part);
    CHECK(config.model_type == "mistral");
    REQUIRE(config.notes.size() == 1);
    CHECK(config.notes[0].find("only the text part of the model is used, not what is described by "
                               "\"vision_config\"") != std::string::npos);
    document["text_config"]["attention_multiplier"] = 2;
    CHECK(parse(document).notes[0] == "config.json: not used: attention_multiplier");
}

TEST_CASE("config: RoPE in two forms is what transformers makes of it") {
    const json yarn = {{"rope_type", "yarn"}, {"factor", 4}};
    const json plain = {{"rope_type", "default"}, {"rope_theta", 5e5}};
    const ModelConfig both =
        parse(changed(llama(), {{"rope_scaling", yarn}, {"rope_parameters", plain}}));
    CHECK(both.rope.kind == "yarn");
    CHECK(both.rope.theta == 10000.0);
    REQUIRE(both.notes.size() == 1);
    CHECK(both.notes[0].find("nothing of rope_parameters") != std::string::npos);
    const ModelConfig empty =
        parse(changed(llama(), {{"rope_scaling", json::object()}, {"rope_parameters", plain}}));
    CHECK(empty.rope.theta == 5e5);
    CHECK(empty.notes.empty());
    const ModelConfig nested = parse(changed(
        llama(), {{"model_type", "gemma3_text"},
                  {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}},
                  {"rope_parameters", {{"full_attention", plain}, {"sliding_attention", plain}}}}));
    CHECK(nested.rope.kind == "linear");
    CHECK(nested.rope.theta == 5e5);
    CHECK(nested.sliding_rope->kind == "default");
}

TEST_CASE("config: caps and scales that Gemma's classes have where the file says nothing") {
    const json gemma2 = changed(llama(), {{"model_type", "gemma2"}});
    CHECK(parse(gemma2).attention_soft_cap == 50.0);
    CHECK(parse(gemma2).logit_soft_cap == 30.0);
    CHECK(parse(gemma2).attention_scale == 1.0 / 16.0);
    const json uncapped = json::parse(gemma2.dump().insert(1, R"("attn_logit_softcapping":null,)"));
    CHECK(parse(uncapped).attention_soft_cap == 0.0);
    const json gemma3 =
        changed(llama(), {{"model_type", "gemma3_text"}, {"attn_logit_softcapping", 4.0}});
    CHECK(parse(gemma3).attention_soft_cap == 0.0);
    CHECK(parse(gemma3).logit_soft_cap == 0.0);
    const json gemma = changed(llama(), {{"model_type", "gemma"}, {"hidden_act", "gelu"}});
    CHECK(parse(gemma).activation == "gelu_pytorch_tanh");
    CHECK(parse(changed(gemma, {{"hidden_act", "silu"}})).activation == "silu");
}

TEST_CASE("config: weights in MLX's format are refused by its name, and described") {
    for (const char* second : {"", "quantization_config"}) {
        json document = changed(llama(), {{"quantization", {{"bits", 4}, {"group_size", 64}}}});
        if (second[0] != 0) document[second] = document["quantization"];
        const ModelConfig config = parse(document);
        CHECK(config.refusal.find("MLX") != std::string::npos);
        CHECK(config.hidden_size == 64);
        CHECK(config.quantized);
    }
    CHECK(parse(llama()).refusal.empty());
}

TEST_CASE("config: float64 is read as float32, with a note") {
    const ModelConfig config = parse(changed(llama(), {{"dtype", "float64"}}));
    CHECK(config.dtype == DType::f32);
    REQUIRE(config.notes.size() == 1);
    CHECK(config.notes[0].find("float64") != std::string::npos);
}

TEST_CASE("config: read from a directory") {
    const test::TemporaryFolder folder;
    try {
        read_model_config(folder.path());
        FAIL("was found");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::not_found);
        CHECK(std::string(error.what()).find("config.json") != std::string::npos);
    }
    folder.write("config.json", llama().dump());
    const ModelConfig config = read_model_config(folder.path());
    CHECK(config.raw_json == llama().dump());
    CHECK_FALSE(config.quantized);
}

TEST_CASE("config: the shared models") {
    const auto models = test::shared_data("models");
    if (models.empty()) return;
    const ModelConfig gpt2 = read_model_config(models / "capp-gpt2");
    CHECK_FALSE(gpt2.bos_token_id.has_value());
    CHECK(gpt2.eos_token_ids == std::vector<int32_t>{51});
    CHECK(gpt2.notes.size() == 1);
    CHECK(read_generation_config(models / "stories260k").eos_token_ids ==
          std::vector<int32_t>{1, 2});
    CHECK(read_generation_config(models / "stories260k").do_sample == false);
}

TEST_CASE("config: without a known model_type the architecture says what must be there") {
    for (const json& model_type : {json(nullptr), json("no_such_type")}) {
        const json whole = changed(llama(), {{"model_type", model_type}});
        CHECK(parse(whole).num_heads == 8);
        CHECK_THROWS_WITH_AS(parse(changed(whole, {{"num_attention_heads", nullptr}})),
                             doctest::Contains("num_attention_heads"), Error);
    }
}

}  // namespace
}  // namespace nvllm
