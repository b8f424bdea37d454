// Copies of activations, row by row where there are gaps between rows.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm {

// out = x: [rows, width] each, of one type, on the context's device.
void copy_rows(const Context& context, const ConstTensorView& x, const TensorView& out);

}  // namespace nvllm
