// The type in which attention multiplies on this CPU.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace nvllm::cpu {

// The type that queries and probabilities are rounded to before they are multiplied with keys and
// values of the type `cached`: bfloat16 where these are bfloat16 and the instruction set multiplies
// pairs of bfloat16, else float32.
DType attention_compute_type(DType cached, int64_t head_dim);

}  // namespace nvllm::cpu
