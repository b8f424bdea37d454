// What a directory says of a draft head: a small network that proposes tokens to a target model,
// from the target's hidden states. It is no model by itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

enum class DraftMethod : uint8_t {
    eagle,   // EAGLE and EAGLE-2: (Li et al. 2024); the second differs in its trees alone
    eagle3,  // (Li et al. 2025): states of several layers, a vocabulary of its own
    mtp,     // next-token layers of the target's own checkpoint
};

// "eagle", as --speculative-config names it.
const char* draft_method_name(DraftMethod method);

// How the ids of a config's auxiliary layers count.
enum class AuxLayerNumbering : uint8_t {
    layers_done,   // id j: the state after j layers, 0 the embedding (vLLM, speculators)
    behind_layer,  // id j: the state behind layer j, after j + 1 layers (SGLang)
};

// The published layout of a head's files.
struct DraftLayout {
    std::string name;                   // "EAGLE-3 in the speculators format"
    std::optional<DraftMethod> method;  // empty: known by name alone, and not read
    bool is_speculators = false;        // block keys lie in transformer_layer_config
};

// The layout of the draft head that the directory holds; nothing where it holds none that is known.
// Reads config.json and the names of tensors. A fault of the files is no draft head's.
std::optional<DraftLayout> find_draft_layout(const std::filesystem::path& directory);

// Why the directory is no model to run; empty: it holds no draft head.
std::string why_no_model_but_draft_head(const std::filesystem::path& directory);

struct DraftHeadConfig {
    DraftLayout layout;
    DraftMethod method = DraftMethod::eagle;
    ModelConfig block;                   // of its layers, as of a decoder; vocab_size: the target's
    int64_t target_hidden_size = 0;      // of the hidden states that it is given
    int64_t draft_vocab_size = 0;        // columns of its logits
    int64_t num_aux_hidden_states = 0;   // states of layers that are fused; 0: the last state alone
    std::vector<int64_t> aux_layer_ids;  // as the file has them; empty: default_aux_layers()
    bool norm_before_residual = false;   // the residual begins with the normed state
    bool norm_before_fc = false;         // of all fused states together
    bool fc_norm = false;                // of each fused state
    bool norm_output = false;            // the next step is given the state behind the last norm
    bool fc_bias = false;
    bool has_own_embedding = false;
    std::string target;  // what the file says it was trained for; empty: nothing

    bool has_own_head() const { return method == DraftMethod::eagle3; }
    bool fuses() const { return num_aux_hidden_states > 0; }
};

// Checked. `families` are those whose blocks a head may have. Throws not_found, or bad_data naming
// the file and the key, or the layout where it is not read.
DraftHeadConfig read_draft_head_config(const std::filesystem::path& directory,
                                       FamilyTable families);

// After how many layers of a target of `num_layers` each state is taken, in the order that the head
// fuses them; empty for a head that fuses none. Throws bad_data where the target has no such layer.
std::vector<int64_t> aux_layers(const DraftHeadConfig& config, int64_t num_layers,
                                AuxLayerNumbering numbering);

}  // namespace nvllm
