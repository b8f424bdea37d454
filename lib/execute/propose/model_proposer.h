// A draft method that computes: hidden states and logits of tokens that may follow, by a model of
// its own or from the target's hidden states. It knows tensors and no sequences.
//
// Its drafts are verified like all others, so that nothing it computes changes an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/model/model.h"

namespace nvllm {

// The target's hidden states that a method reads.
struct TargetStates {
    bool last = false;            // behind the final norm, [tokens, hidden]
    std::vector<int64_t> layers;  // after so many blocks, side by side: [tokens, layers * hidden]

    bool none() const { return !last && layers.empty(); }
};

// Immutable weights. One pass at a time; activations come from the context's scratch arena and live
// until the caller resets it.
class ModelProposer {
  public:
    virtual ~ModelProposer() = default;

    // Of its layers, which ForwardContext::kv counts from 0.
    virtual const std::vector<CacheLayout>& kv_groups() const = 0;
    virtual const TargetStates& target_states() const = 0;
    // How far the token of a row is ahead of the row's position: 0, or 1 where the target's state
    // at the position stands for the token there.
    virtual int32_t tokens_ahead() const = 0;
    // Rows at later positions are not computed.
    virtual int64_t max_positions() const = 0;
    // Tokens that rows may have.
    virtual int64_t vocab_size() const = 0;
    // Whether rows have RowAttributes::rope_choices.
    virtual bool has_rope_choices() const = 0;
    virtual int64_t state_width() const = 0;

    // States of all rows [tokens, state_width]; writes their keys and values. states: of the target
    // as target_states() says, [tokens, ...]; without data where none are read.
    virtual TensorView begin(const ForwardContext& batch, const ConstTensorView& states) = 0;
    // The same of rows that follow others: states [tokens, state_width] of those before them.
    virtual TensorView go_on(const ForwardContext& batch, const ConstTensorView& states) = 0;
    // Logits float32 [rows, draft vocabulary] of states [rows, state_width].
    virtual TensorView logits(const Context& context, const ConstTensorView& states) = 0;
    // The target's id of a column of the logits.
    virtual int32_t target_id(int32_t column) const = 0;

    // Bytes of weights that are not the target's.
    virtual size_t weight_bytes() const = 0;
};

}  // namespace nvllm
