// The ops of the CUDA module, with the signatures of the contracts in kernels/ops. Views are
// checked before these functions are called.
#pragma once

#include "kernels/ops/op_list.h"

namespace nvllm::cuda {

#define NVLLM_DECLARE(name) decltype(ops::name) name;
NVLLM_DEVICE_OPS(NVLLM_DECLARE)
#undef NVLLM_DECLARE

constexpr int kMaxHeadDim = 256;  // of paged_attention
// The same where keys are values too, and of these.
constexpr int kMaxLatentDim = 640;
constexpr int kMaxLatentValues = 512;

}  // namespace nvllm::cuda
