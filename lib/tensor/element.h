// Single values of float tensors in host memory, wherever they lie: a file may hold them at odd
// addresses.
#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace nvllm {

// Element `i` of float32, bfloat16 or float16 values that lie side by side.
float float_at(const std::byte* values, DType dtype, int64_t i);
inline float float_at(const ConstTensorView& view, int64_t i) {
    return float_at(view.as<std::byte>(), view.dtype, i);
}
// The nearest value of the type.
void set_float_at(std::byte* values, DType dtype, int64_t i, float value);

}  // namespace nvllm
