// Values of float tensors in host memory, wherever they lie: a file may hold them at odd addresses.
// Types are float32, bfloat16 and float16.
#pragma once

#include <cstdint>

#include "kernels/view.h"

namespace nvllm {

// Element `i` of values that lie side by side.
float float_at(const std::byte* values, DType dtype, int64_t i);
inline float float_at(const ConstTensorView& view, int64_t i) {
    return float_at(view.as<std::byte>(), view.dtype, i);
}
// The nearest value of the type.
void set_float_at(std::byte* values, DType dtype, int64_t i, float value);

// All values of a view without gaps, one after another.
void copy_floats(const ConstTensorView& from, std::byte* to, DType dtype);
// from [rows, columns] without gaps; to [columns, rows].
void copy_floats_transposed(const ConstTensorView& from, std::byte* to, DType dtype);

}  // namespace nvllm
