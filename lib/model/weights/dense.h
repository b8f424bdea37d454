// Unquantized linears: float32, bfloat16 or float16 matrices.
#pragma once

#include "lib/model/weights/scheme.h"

namespace nvllm {

// One part for all whose outputs lie side by side where their weights have one type, else one each.
std::vector<std::unique_ptr<LinearPart>> load_dense(WeightSource& source,
                                                    std::span<const LinearSpec> linears);
// NAME.bias where the linear has one, as products take it; else empty.
Tensor read_bias(WeightSource& source, const LinearSpec& linear);

// A part over a matrix [out, in] that is there already (a tied embedding); `bias` may be empty.
std::unique_ptr<LinearPart> make_dense_part(Tensor weight, Tensor bias, DType compute_type);

}  // namespace nvllm
