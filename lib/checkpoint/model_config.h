// What config.json says about a model, checked: one typed view for every family.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kernels/types.h"
#include "lib/checkpoint/family_defaults.h"

namespace nvllm {

// RoPE as configured; kinds: default, linear, dynamic, llama3, yarn, longrope (also written su).
struct RopeConfig {
    double theta = 10000.0;
    double partial_rotary_factor = 1.0;
    std::string kind = "default";
    double factor = 1.0;
    double low_frequency_factor = 1.0;       // llama3
    double high_frequency_factor = 4.0;      // llama3
    int64_t original_max_positions = 0;      // llama3, yarn, longrope; 0: max_positions
    std::optional<double> attention_factor;  // yarn, longrope
    double beta_fast = 32.0;                 // yarn
    double beta_slow = 1.0;                  // yarn
    std::optional<double> mscale;            // yarn
    std::optional<double> mscale_all_dim;    // yarn
    bool truncate = true;                    // yarn
    std::vector<double> short_factor;        // longrope
    std::vector<double> long_factor;         // longrope
    std::optional<double> alpha;             // dynamic: NTK of one length for all (HunYuan)
    double query_beta = 0.0;  // queries grow with the log of the position (Ministral 3); 0: not
};

// What a layer is made of, where each has one part (Nemotron-H).
enum class LayerKind : uint8_t { state, attention, mlp, experts };

// Layers with a state instead of keys and values, or beside them; a short convolution alone has no
// sizes but its taps.
struct LinearAttentionConfig {
    StateLayerKind kind = StateLayerKind::delta_net;
    int64_t key_heads = 0;
    int64_t value_heads = 0;  // a multiple of key_heads
    int64_t key_dim = 0;      // of a head
    int64_t value_dim = 0;    // alike
    int64_t conv_taps = 0;
    int64_t gate_rank = 0;  // of the vectors that gates are made of (Kimi Linear); 0: of the input
    bool conv_bias = false;
    bool projection_bias = false;
    bool output_bias = false;  // of the last projection
    std::string activation;    // behind the convolution
    // Of Mamba-2 alone.
    bool has_norm = true;
    bool norm_before_gate = false;
    double least_step = 0.0;
    double in_scale = 1.0;            // factors of Falcon-H1: on what the layer reads
    std::vector<double> part_scales;  // on its gates, values, keys, queries, steps; empty: 1
    double out_scale = 1.0;           // on what it gives
    std::vector<bool> layers;         // one a layer: has it
};

// Sizes of a layer's attention.
struct LayerHeads {
    int64_t kv_heads = 0;
    int64_t head_dim = 0;
};

// Latent attention: one vector of a token is cached, from which keys and values of all heads are
// made (DeepSeek-V2, DeepSeek-AI 2024).
struct LatentAttentionConfig {
    int64_t query_rank = 0;   // of the vector that queries are made of; 0: of the hidden state
    int64_t latent_dim = 0;   // of the cached vector
    int64_t plain_dim = 0;    // of a head's queries and keys, without a rotation
    int64_t rope_dim = 0;     // rotated; of keys one for all heads, cached behind the vector
    int64_t value_dim = 0;    // of a head
    bool interleaved = true;  // neighbours turn together

    int64_t query_dim() const { return plain_dim + rope_dim; }
    int64_t cached() const { return latent_dim + rope_dim; }
};

// What makes scores of the values of a head of classes: each by itself, or all so that they add up
// to 1.
enum class LabelFunction : uint8_t { none, sigmoid, softmax };

// Sizes and switches, with every value checked against sane limits (nothing is allocated from an
// unchecked size).
struct ModelConfig {
    std::string architecture;       // "LlamaForSequenceClassification", as the file says
    std::string text_architecture;  // "LlamaForCausalLM", which computes its text; empty: refused
    std::string refusal;            // why it cannot be run, and what to do; empty: it can
    std::string model_type;         // "llama"
    bool is_multi_part = false;     // other parts, which are not used, take pictures or sound
    int64_t vocab_size = 0;
    int64_t hidden_size = 0;
    int64_t intermediate_size = 0;
    int64_t mlp_matrices = 3;  // of a dense layer's MLP
    int64_t num_layers = 0;
    int64_t num_heads = 0;
    int64_t num_kv_heads = 0;
    int64_t head_dim = 0;
    int64_t max_positions = 0;
    double norm_epsilon = 1e-5;
    std::string activation = "silu";
    bool encoder = false;             // every position sees all others; a prompt is computed whole
    bool generates = true;            // false: it has no output matrix and makes vectors only
    bool drops_head = false;          // saved with a head of another task, which is not used
    std::vector<std::string> labels;  // of its head of classes, one for each value; empty: none
    LabelFunction label_function = LabelFunction::none;
    bool classifies_mean = false;                // that head reads the mean of all positions
    bool classifier_bias = false;                // of the linear before its classes (ModernBERT)
    std::string classifier_activation = "gelu";  // behind that linear
    bool norm_bias = false;          // where a family leaves it to its config (ModernBERT)
    int64_t position_buckets = 0;    // rows of a table of biases by distance (MPNet); 0: none
    bool learned_positions = false;  // a table of them instead of a rotation
    int64_t position_offset = 0;     // rows of that table before the first position's (RoBERTa)
    int64_t num_token_types = 0;     // BERT; 0: none
    bool tie_word_embeddings = false;
    bool attention_bias = false;  // on q, k, v
    bool attention_output_bias = false;
    bool mlp_bias = false;
    bool head_bias = false;
    bool query_key_norm = false;    // where a family leaves it to its config (GLM-4.5)
    bool has_post_norms = true;     // alike (HyperCLOVA X)
    bool is_parallel = false;       // alike: attention and MLP read the same (StableLM)
    bool scales_embedding = false;  // alike: by the root of hidden_size (Trinity)
    int64_t sliding_window = 0;     // 0: none
    std::vector<int64_t>
        layer_windows;  // one a layer, as ops::PagedAttentionOptions has it; 0: all
    // One a layer: of the kind that the window is for, also where no position can leave it.
    std::vector<bool> windowed_layers;
    // Attention within chunks of so many positions, in layers that rotate (Llama 4); 0: nowhere.
    int64_t attention_chunk = 0;
    std::vector<bool> chunked_layers;
    // Queries of layers that do not rotate grow by ops::position_factors() with an offset of 1;
    // beta 0: they do not.
    double plain_query_beta = 0.0;
    int64_t plain_query_positions = 0;
    std::vector<LayerHeads> layer_heads;  // one a layer; empty: num_kv_heads and head_dim in all
    bool values_are_keys = false;         // in layers of full attention, before norms and rotation
    // The last ones, which have no keys and values of their own but those of the last layer of
    // their kind before them.
    int64_t num_sharing_layers = 0;
    int64_t sharing_mlp_factor = 1;  // how much wider their MLPs are
    int64_t layer_input_size = 0;    // of a vector that each layer adds for a token; 0: none
    RopeConfig rope;
    std::optional<RopeConfig>
        sliding_rope;  // of layers with a window, where they have their own (Gemma 3)
    std::optional<double> attention_scale;  // on q · k; empty: 1 / sqrt(head_dim)
    bool attention_scale_by_layer = false;  // divided by the layer's number, from 1 (GPT-2)
    double attention_soft_cap = 0.0;        // 0: none (Gemma 2)
    double logit_soft_cap = 0.0;            // 0: none (Gemma 2)
    double embedding_scale = 1.0;           // factors of Granite and Cohere
    double residual_scale = 1.0;            // on what a layer adds
    double logit_scale = 1.0;
    double attention_in_scale = 1.0;  // factors of Falcon-H1: on what attention reads
    double attention_out_scale = 1.0;
    double mlp_gate_scale = 1.0;
    double mlp_out_scale = 1.0;
    std::vector<bool> rotated_layers;  // one a layer: queries and keys are rotated; empty: all are
    int64_t num_experts = 0;           // 0: a dense model
    int64_t experts_per_token = 0;
    int64_t expert_intermediate_size = 0;
    bool normalize_expert_weights = false;  // the chosen experts' weights are scaled to sum to 1
    int64_t shared_expert_intermediate_size = 0;  // of an expert for all tokens; 0: none
    int64_t expert_latent_size = 0;               // of what experts read and give; 0: hidden_size
    int64_t num_expert_groups = 1;
    int64_t expert_groups_per_token = 1;  // whose experts can be chosen
    bool groups_by_best = false;          // a group is as good as its best expert (DeepSeek V2)
    double expert_weight_scale = 1.0;
    double swiglu_alpha = 1.702;  // of experts that clamp (gpt-oss)
    double swiglu_limit = 7.0;
    std::vector<bool> sparse_layers;     // one a layer when num_experts > 0: has experts
    bool experts_beside_mlp = false;     // and not in its place
    double router_noise = 0.0;           // of SparseMixer's training
    bool has_choice_bias = true;         // of experts, where a family leaves it to its config
    std::vector<LayerKind> layer_kinds;  // one a layer; empty: each has attention and an MLP
    std::optional<LinearAttentionConfig> linear_attention;
    bool attention_beside_states = false;  // a layer with a state has attention too
    std::optional<LatentAttentionConfig> latent_attention;  // of all layers; head_dim: its rope_dim
    DType dtype = DType::f32;            // torch_dtype / dtype; float32 when absent
    std::vector<int32_t> eos_token_ids;  // config.json's; generation_config.json wins over it
    std::optional<int32_t> bos_token_id;
    std::string raw_json;            // the whole file, for what only one family reads
    bool quantized = false;          // the file describes quantized weights
    std::vector<std::string> notes;  // what was ignored, in words for the user

    LayerHeads heads_of(size_t layer) const {
        return layer_heads.empty() ? LayerHeads{num_kv_heads, head_dim} : layer_heads[layer];
    }
    // Of layers with full attention.
    int64_t full_head_dim() const;
    bool is_windowed(size_t layer) const {
        return !windowed_layers.empty() && windowed_layers[layer];
    }
    // The layer whose keys and values this one shares; empty: it has its own.
    std::optional<int32_t> shared_layer(size_t layer) const;
    // Whether this layer has a state.
    bool is_linear(size_t layer) const {
        return linear_attention && linear_attention->layers[layer];
    }
    bool has_attention(size_t layer) const {
        if (is_linear(layer)) return attention_beside_states;
        return layer_kinds.empty() || layer_kinds[layer] == LayerKind::attention;
    }
    // Whether this layer has an MLP or experts.
    bool has_mlp(size_t layer) const {
        return layer_kinds.empty() || layer_kinds[layer] == LayerKind::mlp ||
               layer_kinds[layer] == LayerKind::experts;
    }
    // Channels that an expert reads and gives.
    int64_t expert_channels() const {
        return expert_latent_size > 0 ? expert_latent_size : hidden_size;
    }
    // Whether a layer rotates queries and keys, where the model has RoPE.
    bool rotates(int64_t layer) const {
        return rotated_layers.empty() || rotated_layers[static_cast<size_t>(layer)];
    }

    // Parameters of a dense decoder of these sizes; for plans made before weights are read.
    int64_t estimated_parameters() const;

  private:
    int64_t of_attention(size_t layer) const;
    int64_t of_linear_attention() const;
    int64_t of_latent_attention() const;
    int64_t of_mlp(size_t layer) const;
};

// Reads and checks `directory`/config.json. Throws not_found or bad_data naming the file, the key
// and the limit. What no family can run is described as far as its keys go, with a refusal.
// lib/model/registry.h has the same with the families that there are.
ModelConfig read_model_config(const std::filesystem::path& directory, FamilyTable families);
ModelConfig parse_model_config(const std::string& json, const std::string& file_name,
                               FamilyTable families);
// The same for people: of a family's file with faults too, which become its refusal. Throws
// not_found or bad_data when it is no JSON object.
ModelConfig describe_model_config(const std::filesystem::path& file, FamilyTable families);

// Sampling defaults of generation_config.json; fields that are absent stay empty.
struct GenerationConfig {
    std::vector<int32_t> eos_token_ids;
    std::optional<int32_t> bos_token_id;
    std::optional<bool> do_sample;
    std::optional<float> temperature;
    std::optional<int32_t> top_k;
    std::optional<float> top_p;
    std::optional<float> min_p;
    std::optional<float> typical_p;
    std::optional<float> top_h;
    std::optional<float> epsilon_cutoff;
    std::optional<float> eta_cutoff;
    std::optional<float> repetition_penalty;
    std::optional<int32_t> no_repeat_ngram_size;
    std::vector<std::vector<int32_t>> bad_words_ids;
    std::vector<std::pair<int32_t, float>> token_biases;  // sequence_bias, of single tokens
    std::vector<int32_t> suppress_tokens;
    std::vector<int32_t> begin_suppress_tokens;
    std::optional<int32_t> forced_bos_token_id;
    std::vector<int32_t> forced_eos_token_ids;
    std::optional<std::pair<int32_t, float>> exponential_decay_length_penalty;
    std::optional<int32_t> max_new_tokens;
    std::optional<int32_t> max_length;  // of prompt and answer together
    std::optional<int32_t> min_new_tokens;
    std::optional<int32_t> min_length;  // of prompt and answer together
    std::vector<std::string> stop_strings;
    std::optional<float> length_penalty;
    std::optional<std::string> early_stopping;  // "yes", "no", "never"
    std::vector<std::string> notes;             // what was not used, in words for the user
};

// Empty fields when the directory has no such file, or is an empty path. `overrides`, when not
// empty, is a JSON object whose members replace the file's. Throws bad_data when either is broken.
GenerationConfig read_generation_config(const std::filesystem::path& directory,
                                        const std::string& overrides = "");

}  // namespace nvllm
