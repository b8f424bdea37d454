// Experts of a layer on several ranks: each row goes once to every rank that has an expert of it,
// and the results of each expert come back.
//
// What comes back is added as one rank adds it, in the order of the experts, so that no bit depends
// on how many ranks there are. The host chooses the experts and tells other ranks.
#pragma once

#include "kernels/context.h"
#include "lib/model/layers/expert_choices.h"
#include "lib/model/layers/moe_mlp.h"

namespace nvllm {

// y [rows, width] += the weighted sums of the experts that `choices` names of x. All ranks of the
// context's expert group call it together, each with rows of its own; without rows too. REQUIRES:
// layer.share, in the order of the group.
void dispatch_and_combine(const Context& context, const MoeMlp& layer, const ConstTensorView& x,
                          const Choices& choices, const TensorView& y);

}  // namespace nvllm
