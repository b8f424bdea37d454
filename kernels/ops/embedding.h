// Rows of a table, by index.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// out[t] = table[ids[t]] * scale.
// table: float32, bfloat16 or float16 [rows, hidden]; ids: int32 [tokens], each in [0, rows); out:
// activations [tokens, hidden].
void embedding(const Context& context, const ConstTensorView& table, const ConstTensorView& ids,
               float scale, const TensorView& out);

}  // namespace nvllm::ops
