// Choosing code by a weight's element type.
#pragma once

#include "kernels/error.h"
#include "kernels/types.h"

namespace nvllm {

// Calls function(T{}) with the C++ type of a float32, bfloat16 or float16 element.
template <typename Function>
void with_float_type(DType dtype, Function&& function) {
    switch (dtype) {
        case DType::f32:
            function(float{});
            return;
        case DType::bf16:
            function(BFloat16{});
            return;
        case DType::f16:
            function(Float16{});
            return;
        default:
            NVLLM_CHECK(false, "weights are float32, bfloat16 or float16");
    }
}

}  // namespace nvllm
