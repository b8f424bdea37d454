// One block of an encoder: attention and feed-forward, each added to what it read and then
// normalised.
#pragma once

#include "lib/model/layers/attention.h"
#include "lib/model/layers/mlp.h"
#include "lib/model/layers/norm.h"

namespace nvllm {

struct EncoderBlock {
    Attention attention;
    Norm attention_norm;
    Mlp mlp;
    Norm mlp_norm;

    // hidden [tokens, hidden], in place.
    void apply(const ForwardContext& batch, int32_t index, const TensorView& hidden) const;

    size_t bytes() const;
};

}  // namespace nvllm
