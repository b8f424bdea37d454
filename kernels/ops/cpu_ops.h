// The ops of the CPU, which kernels/cpu defines with the signatures of the contracts. Views are
// checked before these functions are called.
#pragma once

#include "kernels/ops/op_list.h"

namespace nvllm::cpu {

#define NVLLM_DECLARE(name) decltype(ops::name) name;
NVLLM_CPU_OPS(NVLLM_DECLARE)
#undef NVLLM_DECLARE

}  // namespace nvllm::cpu
