// Rotary position embedding of one kind of layer, and the cosines and sines of one step.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"
#include "lib/model/layers/rope_scaling.h"
#include "lib/model/layers/scratch.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// float32 [tokens, rotary / 2] each, on the step's arena; of no rank: no rotation.
struct CosSin {
    TensorView cosines;
    TensorView sines;
    // float32 [tokens], what queries are multiplied with; without data: nothing.
    TensorView query_factors = {};
};

class Rotary {
  public:
    // In memory of the source's device. No frequencies: no rotation, and factors on queries alone.
    Rotary(WeightSource& source, const RopeFrequencies& frequencies);

    // positions: int32 [tokens]. choices: int32 [tokens], which frequencies each token takes: 0, or
    // 1 in sequences that stay within original_context(); without data: all take 0.
    CosSin cos_sin(const Context& context, const ConstTensorView& positions,
                   const ConstTensorView& choices) const;

  private:
    Tensor inverse_frequencies_;  // float32 [choices, rotary / 2]
    float attention_factor_;
    float query_beta_;  // of ops::position_factors(); 0: none
    int64_t original_positions_;
    int64_t query_offset_;
};

}  // namespace nvllm
