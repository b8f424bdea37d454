// The form in which a family states what its config.json leaves unsaid and which keys it reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/unused_keys.h"

namespace nvllm {

// Which layers see a window.
enum class Windows : uint8_t {
    none,
    all,
    switched,            // if use_sliding_window: from max_window_layers on
    switched_even,       // if use_sliding_window: every second below max_window_layers
    switched_unrotated,  // if use_sliding_window: those that are not rotated
    alternating,         // every second from the first on
    all_but_nth,         // all but every window_pattern-th
    all_but_first_of_n,  // all but the first of window_pattern
    three_of_four,       // all but the first of four
    above,               // from max_window_layers on
    listed,              // those that layer_types says
};

// Which layers rotate queries and keys.
enum class RotatedLayers : uint8_t {
    all,
    listed,               // those that no_rope_layers says, else all but every fourth (SmolLM3)
    windowed,             // those with a window (Cohere 2)
    windowed_if_windows,  // those with a window, where sliding_window gives one, else all (EXAONE
                          // 4)
    by_position_type,     // all if position_embedding_type is rope, else none (Granite 4)
    none,
};

// What layers with states compute: the gated delta rule behind a short convolution; the same with a
// decay of each dimension (Kimi Linear); Mamba-2, whose groups are heads of keys; or the
// convolution alone, between gates.
enum class StateLayerKind : uint8_t { none, delta_net, kimi_delta, mamba2, short_conv };

// What a family calls the settings of Mamba-2, and what they are where it says nothing. Null: no
// key says it.
struct MambaKeys {
    const char* heads = "mamba_n_heads";
    const char* groups = "mamba_n_groups";
    const char* state_dim = "mamba_d_state";
    const char* head_dim = "mamba_d_head";
    const char* taps = "mamba_d_conv";
    const char* conv_bias = "mamba_conv_bias";
    const char* in_bias = "mamba_proj_bias";
    const char* out_bias = "mamba_proj_bias";
    const char* width = nullptr;             // of all heads; null says that expansion does
    const char* expansion = "mamba_expand";  // width / hidden_size
    const char* activation = nullptr;        // behind the convolution; null: that of the MLP
    const char* least_step = nullptr;
    const char* step_limits = "time_step_limit";
    const char* has_norm = nullptr;
    const char* norm_before_gate = nullptr;
    int64_t num_heads = 128;
    int64_t num_groups = 1;
    int64_t state_size = 256;
    int64_t head_size = 0;    // 0: by the width
    int64_t total_width = 0;  // 0: by the expansion
    double step = 0.0;        // the least one
    bool norm = true;
    bool norm_first = false;  // before the gate
};

// What a family's config.json leaves unsaid. 0 in a size: it must be said, or follows from others.
struct FamilyDefaults {
    std::string_view model_type;
    // Further model_types of the same text part, parted by spaces.
    std::string_view other_types = {};
    const char* architecture = "";  // of the class that computes its text
    int64_t vocab_size = 0;
    int64_t num_heads = 0;
    int64_t num_kv_heads = 0;  // 0: as many as heads
    int64_t head_dim = 0;      // 0: hidden_size / heads
    int64_t max_positions = 2048;
    double epsilon = 1e-6;
    double theta = 10000.0;
    const char* activation = "silu";
    // What published files call `activation` though the word means another; empty: nothing.
    std::string_view misnamed_activation = {};
    const char* activation_key = "hidden_act";
    const char* epsilon_key = "rms_norm_eps";  // null: no key changes it
    int64_t intermediate_per_hidden = 0;  // width of the MLP where the key is absent; 0: required
    // Of dense layers where there are others; null: intermediate_size is of all.
    const char* dense_width_key = nullptr;
    int64_t dense_width = 0;                 // where that key is absent
    int64_t intermediate_size = 0;           // where the key is absent; 0: by the row above
    bool adjusts_intermediate_size = false;  // where block_auto_adjust_ff_dim is absent
    int64_t mlp_matrices = 3;                // of a decoder; 2: not gated
    bool tied = false;
    const char* attention_bias_key = "attention_bias";  // on q, k, v; null: no key gives them one
    bool attention_bias = false;                        // where the key is absent
    const char* output_bias_key = "attention_bias";     // null: no key gives the output one
    bool output_bias = false;                           // where the key is absent
    const char* mlp_bias_key = "mlp_bias";
    bool mlp_bias = false;  // where the key is absent
    const char* head_bias_key = "lm_head_bias";
    bool head_bias = false;           // where the key is absent
    double query_scalar = 0.0;        // query_pre_attn_scalar where it is absent; 0: head_dim
    double attention_soft_cap = 0.0;  // where the key is absent; 0: none
    double logit_soft_cap = 0.0;      // alike
    bool normalizes_experts = false;  // where norm_topk_prob is absent or not the family's
    int64_t num_experts = 0;          // where the key is absent
    int64_t experts_per_token = 0;    // alike
    int64_t expert_size = 0;          // where moe_intermediate_size is; 0: intermediate_size
    int64_t num_shared_experts = 0;   // where n_shared_experts is absent or not the family's
    int64_t shared_expert_width = 0;  // where shared_expert_intermediate_size is
    // Its shared expert is in every layer, as wide as shared_intermediate_size says, also in a
    // model without experts (Granite 4).
    bool has_shared_mlp = false;
    int64_t first_dense_layers = 0;       // where first_k_dense_replace is
    bool has_sparse_mixer = false;        // router_jitter_noise counts; a token has two experts
    bool query_key_norm = false;          // where use_qk_norm is absent
    double expert_weight_scale = 1.0;     // where routed_scaling_factor is
    int64_t expert_groups = 1;            // where n_group is
    int64_t expert_groups_per_token = 1;  // where topk_group is
    // Words that scoring_func and topk_method may have, parted by spaces, the first where they are
    // absent; empty: not the family's keys.
    std::string_view router_scores = {};
    std::string_view choice_methods = {};
    Windows windows = Windows::none;
    const char* window_key = "sliding_window";
    int64_t window = 0;              // where the key is absent
    int64_t max_window_layers = 28;  // where the key is absent
    int64_t window_pattern = 6;      // alike, of all_but_nth and all_but_first_of_n
    RotatedLayers rotated = RotatedLayers::all;
    const char* theta_key = "rope_theta";
    double sliding_theta = 0.0;  // of layers with a window, where their RoPE is their own; 0: not
    const char* sliding_theta_key = "rope_local_base_freq";
    bool scales_sliding_rope = false;  // rope_scaling is of layers with a window too
    double partial_rotary = 1.0;       // of each head that is rotated, where the key is absent
    double attention_scale = 0.0;  // attention_multiplier where it is absent; 0: 1 / sqrt(head_dim)
    double logit_scale = 1.0;      // where the key is absent
    bool multiplies_logits = false;  // by logits_scaling, which divides them elsewhere
    const char* rope = nullptr;      // rope_parameters, as JSON, where there are none
    StateLayerKind state_layers = StateLayerKind::none;
    MambaKeys mamba = {};
    bool attention_beside_states = false;  // ModelConfig's
    bool has_only_states = false;          // no layer has attention or an MLP
    bool has_chunks = false;               // see chunk_config.h
    bool lists_kinds = false;              // layers have one part each, which its config lists
    bool has_layer_differences = false;    // see layer_differences.h
    bool has_latent_attention = false;     // in all layers
    bool has_mrope = false;                // positions of several axes, which are one for text
    bool is_multi_part = false;            // its config also has settings of other parts
    bool encoder = false;
    bool may_be_encoder = false;  // as use_bidirectional_attention says
    bool learned_positions = false;
    int64_t position_buckets = 0;      // relative_attention_num_buckets where it is absent; 0: none
    int64_t token_types = 0;           // where the key is absent
    bool positions_after_pad = false;  // counted from the padding token's id on
    // "old=new", parted by spaces: a key by its old name, where it is there, stands in for the new.
    std::string_view renamed_keys = {};
    // Keys, parted by spaces, that this family reads and not every other one.
    std::string_view own_keys = {};
    // Keys, parted by spaces, that may list one value for each layer; all must be the same.
    std::string_view uniform_keys = {};
    // "key=value", parted by spaces: keys that may have this value alone, as JSON, or none.
    std::string_view only_values = {};
    // Keys that its published files have and its class passes over.
    std::string_view idle_keys = {};
};

// The families that a reader of config.json knows; lib/model has them. Of several with one
// architecture, the first is the one that the architecture means.
using FamilyTable = std::span<const FamilyDefaults>;

// By model_type; a file without one, or with an unknown one, is what its architecture says. Of
// families that are not in the table: the file's own words, and no demands.
const FamilyDefaults& find_family(FamilyTable families, std::string_view model_type,
                                  std::string_view architecture);

// Calls `take` with each word of `words`, parted by spaces.
template <typename Take>
void for_each_word(std::string_view words, const Take& take) {
    while (!words.empty()) {
        const size_t end = std::min(words.find(' '), words.size());
        if (end > 0) take(words.substr(0, end));
        words.remove_prefix(std::min(end + 1, words.size()));
    }
}
// Whether `words`, parted by spaces, has this one.
bool contains_word(std::string_view words, std::string_view word);
// Whether the family reads a key that only some families do.
inline bool reads_key(const FamilyDefaults& family, std::string_view key) {
    return contains_word(family.own_keys, key);
}
// The keys that some family reads and this one does not.
KeySet foreign_keys(FamilyTable families, const FamilyDefaults& family);

}  // namespace nvllm
