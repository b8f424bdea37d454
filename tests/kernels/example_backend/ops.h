// The example's ops; contracts are in kernels/ops/*.h.
#pragma once

#include "kernels/ops/backend_ops.h"

namespace example {

using nvllm::ConstTensorView;
using nvllm::Context;
using nvllm::TensorView;

#define NVLLM_DECLARE(name) decltype(nvllm::ops::name) name;
NVLLM_REQUIRED_DEVICE_OPS(NVLLM_DECLARE)
#undef NVLLM_DECLARE

}  // namespace example
