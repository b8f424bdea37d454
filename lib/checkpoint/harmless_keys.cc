// The table of harmless keys.
#include "lib/checkpoint/harmless_keys.h"

#include <array>
#include <nlohmann/json.hpp>

namespace nvllm {
namespace {

constexpr auto kHarmless = std::to_array<HarmlessKey>({
    // Of training, of tokenizers, of classes for other tasks, and of how transformers computes.
    {"transformers_version"},
    {"is_decoder"},  // encoders read it
    {"auto_map"},    // has a note of its own
    {"attn_implementation"},
    {"use_cache"},
    {"cache_implementation"},
    {"initializer_range"},
    {"initializer_factor"},
    {"gradient_checkpointing"},
    {"pretraining_tp"},
    {"neftune_noise_alpha"},
    {"attention_dropout"},
    {"hidden_dropout"},
    {"hidden_dropout_prob"},
    {"attention_probs_dropout_prob"},
    {"resid_pdrop"},
    {"embd_pdrop"},
    {"attn_pdrop"},
    {"residual_dropout"},
    {"embedding_dropout"},
    {"resid_dropout"},
    {"embd_dropout"},
    {"dropout"},
    {"classifier_dropout"},
    {"qa_dropout"},
    {"seq_classif_dropout"},
    {"summary_first_dropout"},
    {"summary_last_dropout"},
    {"summary_type"},
    {"summary_use_proj"},
    {"summary_activation"},
    {"summary_proj_to_labels"},
    {"pad_token_id"},
    {"unk_token_id"},
    {"sep_token_id"},
    {"cls_token_id"},
    {"mask_token_id"},
    {"decoder_start_token_id"},
    {"tokenizer_class"},
    {"id2label"},
    {"label2id"},
    {"num_labels"},
    {"problem_type"},
    {"finetuning_task"},
    {"task_specific_params"},
    {"sentence_transformers"},
    {"transformers.js_config"},
    {"output_attentions"},
    {"output_hidden_states"},
    {"output_router_logits"},
    {"router_aux_loss_coef"},
    {"router_jitter_noise"},
    {"return_dict"},
    {"use_return_dict"},
    {"torchscript"},
    {"use_bfloat16"},
    {"tf_legacy_loss"},
    {"tie_encoder_decoder"},
    {"chunk_size_feed_forward"},
    {"max_sequence_length"},
    {"model_max_length"},
    {"unsloth_fixed"},
    {"unsloth_version"},
    // Where they say what holds anyway.
    {"hidden_activation", "\"gelu_pytorch_tanh\""},
    {"hidden_act", "\"gelu_pytorch_tanh\""},
    {"norm_topk_prob", "true"},
    {"position_embedding_type", "\"absolute\""},
    {"is_encoder_decoder", "false"},
    {"add_cross_attention", "false"},
    {"use_bidirectional_attention", "false"},
    {"pruned_heads", "{}"},
    {"layer_types", "[]"},
    {"attention_bias", "false"},
    {"mlp_bias", "false"},
    {"use_sliding_window", "false"},
    {"partial_rotary_factor", "1.0"},
    {"bad_words_ids", "[]"},
    // Settings of generation that old files repeat; they belong into generation_config.json.
    {"max_length", "20"},
    {"min_length", "0"},
    {"do_sample", "false"},
    {"early_stopping", "false"},
    {"num_beams", "1"},
    {"num_beam_groups", "1"},
    {"diversity_penalty", "0.0"},
    {"temperature", "1.0"},
    {"top_k", "50"},
    {"top_p", "1.0"},
    {"typical_p", "1.0"},
    {"repetition_penalty", "1.0"},
    {"length_penalty", "1.0"},
    {"no_repeat_ngram_size", "0"},
    {"encoder_no_repeat_ngram_size", "0"},
    {"num_return_sequences", "1"},
    {"output_scores", "false"},
    {"return_dict_in_generate", "false"},
    {"remove_invalid_values", "false"},
});

// Of positions of several axes, which are one for text.
constexpr auto kHarmlessMrope = std::to_array<HarmlessKey>({
    {"mrope_section"},
    {"mrope_interleaved"},
});

}  // namespace

std::vector<std::string> unused_config_keys(const nlohmann::json& object, const KeySet& asked,
                                            const FamilyDefaults& family, FamilyTable families) {
    KeySet used = asked;
    for (const std::string& key : foreign_keys(families, family)) used.erase(key);
    std::vector<std::string> unused = unused_keys(object, used, kHarmless);
    std::erase_if(unused,
                  [&](const std::string& key) { return contains_word(family.idle_keys, key); });
    return unused;
}

std::vector<std::string> unused_rope_keys(const nlohmann::json& object, const KeySet& asked,
                                          const FamilyDefaults& family) {
    const std::span<const HarmlessKey> harmless = kHarmlessMrope;
    return unused_keys(object, asked, family.has_mrope ? harmless : harmless.first(0));
}

}  // namespace nvllm
