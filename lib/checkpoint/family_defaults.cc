// The table of families.
#include "lib/checkpoint/family_defaults.h"

#include <algorithm>
#include <array>

namespace nvllm {
namespace {

constexpr std::string_view kSwitchedWindowKeys =
    "use_sliding_window sliding_window max_window_layers layer_types";
constexpr std::string_view kGemma3Keys =
    "attention_bias query_pre_attn_scalar final_logit_softcapping sliding_window layer_types "
    "sliding_window_pattern rope_local_base_freq use_bidirectional_attention";
constexpr const char* kCwmRope =
    R"({"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})";

constexpr std::array<FamilyDefaults, 23> kFamilies = {{
    {.model_type = "llama",
     .architecture = "LlamaForCausalLM",
     .own_keys = "attention_bias mlp_bias"},
    {.model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .num_kv_heads = 8,
     .max_positions = 131072,
     .windows = Windows::all,
     .window = 4096,
     .own_keys = "sliding_window"},
    {.model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .max_positions = 32768,
     .attention_bias = true,
     .output_bias_key = nullptr,
     .windows = Windows::switched,
     .window = 4096,
     .own_keys = kSwitchedWindowKeys},
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .head_dim = 128,
     .max_positions = 32768,
     .windows = Windows::switched,
     .window = 4096,
     .own_keys = "attention_bias use_sliding_window sliding_window max_window_layers layer_types"},
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .max_positions = 1024,
     .epsilon = 1e-5,
     .activation = "gelu_new",
     .activation_key = "activation_function",
     .epsilon_key = "layer_norm_epsilon",
     .tied = true,
     .attention_bias = true,
     .output_bias_key = nullptr,
     .mlp_bias = true,
     .own_keys = "scale_attn_weights scale_attn_by_inverse_layer_idx",
     .idle_keys = "n_ctx reorder_and_upcast_attn"},
    {.model_type = "gemma",
     .architecture = "GemmaForCausalLM",
     .num_kv_heads = 16,
     .head_dim = 256,
     .max_positions = 8192,
     .activation = "gelu_pytorch_tanh",
     .tied = true,
     .own_keys = "attention_bias use_bidirectional_attention"},
    {.model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .num_kv_heads = 4,
     .head_dim = 256,
     .max_positions = 8192,
     .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation",
     .tied = true,
     .query_scalar = 256.0,
     .attention_soft_cap = 50.0,
     .logit_soft_cap = 30.0,
     .windows = Windows::alternating,
     .window = 4096,
     .own_keys = "attention_bias query_pre_attn_scalar attn_logit_softcapping "
                 "final_logit_softcapping sliding_window layer_types use_bidirectional_attention"},
    {.model_type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .vocab_size = 262208,
     .num_heads = 8,
     .num_kv_heads = 4,
     .head_dim = 256,
     .max_positions = 131072,
     .theta = 1e6,
     .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation",
     .tied = true,
     .query_scalar = 256.0,
     .windows = Windows::five_of_six,
     .window = 4096,
     .own_keys = kGemma3Keys},
    {.model_type = "gemma3",
     .architecture = "Gemma3ForCausalLM",
     .vocab_size = 262208,
     .num_heads = 8,
     .num_kv_heads = 4,
     .head_dim = 256,
     .max_positions = 131072,
     .theta = 1e6,
     .activation = "gelu_pytorch_tanh",
     .activation_key = "hidden_activation",
     .tied = true,
     .query_scalar = 256.0,
     .windows = Windows::five_of_six,
     .window = 4096,
     .is_multi_part = true,
     .own_keys = kGemma3Keys},
    {.model_type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .max_positions = 4096,
     .epsilon = 1e-5,
     .windows = Windows::all,
     .own_keys = "sliding_window partial_rotary_factor"},
    {.model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .num_kv_heads = 8,
     .max_positions = 131072,
     .epsilon = 1e-5,
     .theta = 1e6,
     .normalizes_experts = true,
     .windows = Windows::all,
     .own_keys = "sliding_window num_local_experts num_experts num_experts_per_tok"},
    {.model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .num_kv_heads = 4,
     .max_positions = 32768,
     .windows = Windows::switched,
     .window = 4096,
     .own_keys = "attention_bias use_sliding_window sliding_window num_local_experts num_experts "
                 "num_experts_per_tok moe_intermediate_size norm_topk_prob decoder_sparse_step "
                 "mlp_only_layers",
     .idle_keys = "max_window_layers"},
    {.model_type = "bert",
     .architecture = "BertModel",
     .max_positions = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .epsilon_key = "layer_norm_eps",
     .encoder = true,
     .token_types = 2,
     .own_keys = "position_embedding_type is_decoder type_vocab_size"},
    {.model_type = "roberta",
     .architecture = "RobertaModel",
     .max_positions = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .epsilon_key = "layer_norm_eps",
     .encoder = true,
     .token_types = 2,
     .positions_after_pad = true,
     .own_keys = "position_embedding_type is_decoder type_vocab_size pad_token_id"},
    {.model_type = "xlm-roberta",
     .architecture = "XLMRobertaModel",
     .max_positions = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .epsilon_key = "layer_norm_eps",
     .encoder = true,
     .token_types = 2,
     .positions_after_pad = true,
     .own_keys = "position_embedding_type is_decoder type_vocab_size pad_token_id"},
    {.model_type = "distilbert",
     .architecture = "DistilBertModel",
     .max_positions = 512,
     .epsilon = 1e-12,
     .activation = "gelu",
     .activation_key = "activation",
     .epsilon_key = nullptr,
     .encoder = true,
     .own_keys = "is_decoder",
     .idle_keys = "sinusoidal_pos_embds"},
    // Families that differ from one above by name, defaults and windows alone.
    {.model_type = "ministral",
     .architecture = "MinistralForCausalLM",
     .num_kv_heads = 8,
     .max_positions = 131072,
     .windows = Windows::all,
     .window = 4096,
     .own_keys = "sliding_window layer_types"},
    {.model_type = "seed_oss",
     .architecture = "SeedOssForCausalLM",
     .num_kv_heads = 8,
     .head_dim = 128,
     .max_positions = 524288,
     .attention_bias = true,
     .output_bias_key = "attention_out_bias",
     .own_keys = "attention_bias attention_out_bias mlp_bias"},
    {.model_type = "cwm",
     .architecture = "CwmForCausalLM",
     .num_kv_heads = 8,
     .head_dim = 128,
     .max_positions = 131072,
     .epsilon = 1e-5,
     .theta = 1e6,
     .windows = Windows::three_of_four,
     .window = 8192,
     .rope = kCwmRope,
     .own_keys = "mlp_bias sliding_window layer_types"},
    // Text parts of models of several parts; by the type of the part, and by that of the whole.
    {.model_type = "qwen2_vl_text",
     .architecture = "Qwen2ForCausalLM",
     .num_kv_heads = 8,
     .max_positions = 32768,
     .epsilon = 1e-5,
     .theta = 1e6,
     .attention_bias = true,
     .output_bias_key = nullptr,
     .windows = Windows::switched,
     .window = 4096,
     .max_window_layers = 80,
     .has_mrope = true,
     .is_multi_part = true,
     .own_keys = kSwitchedWindowKeys},
    {.model_type = "qwen3_vl_text",
     .architecture = "Qwen3ForCausalLM",
     .num_kv_heads = 32,
     .head_dim = 128,
     .max_positions = 128000,
     .theta = 5e5,
     .has_mrope = true,
     .is_multi_part = true,
     .own_keys = "attention_bias"},
    {.model_type = "qwen3_vl_moe_text",
     .architecture = "Qwen3MoeForCausalLM",
     .num_kv_heads = 16,
     .max_positions = 128000,
     .theta = 5e5,
     .tied = true,
     .normalizes_experts = true,
     .has_mrope = true,
     .is_multi_part = true,
     .own_keys = "attention_bias num_local_experts num_experts num_experts_per_tok "
                 "moe_intermediate_size decoder_sparse_step mlp_only_layers"},
    {.model_type = "phi4_multimodal",
     .architecture = "Phi3ForCausalLM",
     .num_kv_heads = 8,
     .max_positions = 131072,
     .epsilon = 1e-5,
     .windows = Windows::all,
     .is_multi_part = true,
     .own_keys = "sliding_window partial_rotary_factor"},
}};

// The same text part by another name.
struct OtherName {
    std::string_view model_type;
    std::string_view family;
};

constexpr std::array<OtherName, 5> kOtherNames = {{
    {"qwen2_vl", "qwen2_vl_text"},
    {"qwen2_5_vl", "qwen2_vl_text"},
    {"qwen2_5_vl_text", "qwen2_vl_text"},
    {"qwen3_vl", "qwen3_vl_text"},
    {"qwen3_vl_moe", "qwen3_vl_moe_text"},
}};

constexpr FamilyDefaults kUnknownFamily = {.model_type = "", .architecture = ""};

// Calls `take` with each word of `words`.
template <typename Take>
void for_each_word(std::string_view words, const Take& take) {
    while (!words.empty()) {
        const size_t end = std::min(words.find(' '), words.size());
        if (end > 0) take(words.substr(0, end));
        words.remove_prefix(std::min(end + 1, words.size()));
    }
}

}  // namespace

const FamilyDefaults& family_defaults(std::string_view model_type, std::string_view architecture) {
    for (const OtherName& other : kOtherNames) {
        if (other.model_type == model_type) model_type = other.family;
    }
    for (const FamilyDefaults& family : kFamilies) {
        if (family.model_type == model_type) return family;
    }
    for (const FamilyDefaults& family : kFamilies) {
        if (family.architecture == architecture) return family;
    }
    return kUnknownFamily;
}

std::span<const FamilyDefaults> known_families() { return kFamilies; }

bool contains_word(std::string_view words, std::string_view word) {
    bool found = false;
    for_each_word(words, [&](std::string_view other) { found = found || other == word; });
    return found;
}

KeySet foreign_keys(const FamilyDefaults& family) {
    KeySet keys;
    for (const FamilyDefaults& other : kFamilies) {
        for_each_word(other.own_keys, [&](std::string_view key) {
            if (!reads_key(family, key)) keys.emplace(key);
        });
    }
    return keys;
}

}  // namespace nvllm
