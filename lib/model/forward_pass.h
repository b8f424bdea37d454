// A pass of a model over a batch, in the order of its parts.
#pragma once

#include "lib/model/model.h"

namespace nvllm {

// The hidden states of all tokens behind the last block here: activations [tokens, hidden] in
// scratch. Of a stage of a pipeline they come from the one before and go to the one after.
// Fills batch.aux_hidden where it is asked for: the state after all blocks is that behind the final
// norm, as transformers counts it. REQUIRES: its layers are within those of the model.
TensorView run_blocks(Model& model, const ForwardContext& batch);

// Logits float32 [rows, vocab] of hidden states; in scratch. `adapters`: the slot of each of these
// rows, as ops::LoraBatch has them; where the context has adapters.
TensorView head_of_rows(Model& model, const ForwardContext& batch, const ConstTensorView& hidden,
                        const ConstTensorView& adapters);
// The same of the hidden states at `indices`, int32 [rows].
TensorView run_head(Model& model, const ForwardContext& batch, const TensorView& hidden,
                    const ConstTensorView& indices, const ConstTensorView& adapters = {});

}  // namespace nvllm
