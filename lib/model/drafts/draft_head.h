// A draft head over the current batch: from the target's hidden states and the tokens that follow
// them to logits of the tokens after those. It knows tensors and no requests.
//
// Row i of a sequence joins the target's state at position i with the embedding of the token at
// i + 1 and predicts the token at i + 2; its own position is i. In later steps of a draft the
// head's own output replaces the target's state, and nothing is fused again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/checkpoint/draft_head_config.h"
#include "lib/model/layers/decoder_block.h"
#include "lib/model/layers/rotary.h"
#include "lib/model/model.h"

namespace nvllm {

// How readers of one head differ; answers stay the same, acceptance does not.
struct DraftReading {
    AuxLayerNumbering aux_layers = AuxLayerNumbering::layers_done;
    // The embedding at position 0 counts as zero, as vLLM has it for some heads.
    bool masks_first_embedding = false;
};

struct DraftHeadParts {
    Tensor token_embedding;          // [target's vocabulary, hidden]
    std::optional<Norm> fused_norm;  // of all fused states together
    std::vector<Norm> state_norms;   // of each fused state
    LinearWeight fuse;               // [states * target's hidden] → [hidden]
    std::optional<Norm> embedding_norm;
    std::optional<Norm> hidden_norm;
    // [2 hidden] → [hidden] of embedding and state; empty: the first block's attention reads both.
    LinearWeight join;
    bool hidden_first = false;  // the state stands before the embedding
    std::vector<Rotary> rotaries;
    std::vector<DecoderBlock> blocks;
    bool has_first_norm = false;     // before the attention of the first block
    std::optional<Norm> final_norm;  // before the logits
    LinearWeight head;               // [hidden] → [draft vocabulary]
    bool owns_head = true;           // false: the matrix is the target's
    // The target's id of each draft id; empty: the same.
    std::vector<int32_t> target_ids;
};

// Immutable weights and the order of ops over them, with a KV cache of its own. One pass at a time.
// Activations come from the context's scratch arena and live until the caller resets it.
class DraftHead {
  public:
    DraftHead(DraftHeadConfig config, const DraftReading& reading, DraftHeadParts parts);

    const DraftHeadConfig& config() const { return config_; }
    const DraftReading& reading() const { return reading_; }
    // Of its own layers, which ForwardContext::kv counts from 0.
    const std::vector<CacheLayout>& kv_groups() const { return groups_; }
    int32_t num_blocks() const { return static_cast<int32_t>(parts_.blocks.size()); }

    // What rows are joined with, [tokens, hidden]. states: the target's, activations [tokens,
    // width]: those of aux_layers() side by side, else the last behind its final norm.
    ConstTensorView fuse(const Context& context, const ConstTensorView& states) const;

    // The head's state of each row, [tokens, hidden]: the next step's `hidden`. batch.token_ids:
    // the token after each row's position. hidden: of fuse() or of an earlier step. Writes keys and
    // values of the rows.
    TensorView forward(const ForwardContext& batch, const ConstTensorView& hidden) const;

    // Logits float32 [rows, draft vocabulary] of states of forward() [rows, hidden].
    TensorView logits(const Context& context, const ConstTensorView& states) const;

    // The target's id of a draft id. REQUIRES: 0 <= draft_id < config().draft_vocab_size.
    int32_t target_id(int32_t draft_id) const {
        return parts_.target_ids.empty() ? draft_id
                                         : parts_.target_ids[static_cast<size_t>(draft_id)];
    }

    // Bytes of weights that are the head's own.
    size_t weight_bytes() const;

  private:
    void embed(const ForwardContext& batch, const TensorView& out) const;
    // The first block over embedding and state, each [tokens, hidden], to `out`.
    void first_block(const ForwardContext& batch, const CosSin& cos_sin,
                     const ConstTensorView& hidden, const TensorView& out) const;

    DraftHeadConfig config_;
    DraftReading reading_;
    DraftHeadParts parts_;
    std::vector<CacheLayout> groups_;
};

}  // namespace nvllm
