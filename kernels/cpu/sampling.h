// CPU versions of kernels/ops/sampling.h; views are checked already.
#pragma once

#include "kernels/ops/sampling.h"

namespace nvllm::cpu {

void change_scores(const Context& context, const ops::LogitsAdjustments& changes,
                   const TensorView& logits);

void sample(const Context& context, const ConstTensorView& logits, const ConstTensorView& rows,
            const TensorView& tokens);

void logprobs(const Context& context, const ConstTensorView& logits, const ConstTensorView& chosen,
              const ops::LogprobsOutput& out);

}  // namespace nvllm::cpu
