// Dense matmuls on the GPU without a library.
//
// Weights of the 16-bit compute type are multiplied on tensor cores, with exact products and
// float32 sums; every other combination in float32 (matmul_selection.cu).
#include "kernels/cuda/matmul/matmul.h"

#include "kernels/cuda/matmul/gemv.h"
#include "kernels/cuda/matmul/matmul_selection.h"
#include "kernels/cuda/ops.h"

namespace nvllm::cuda {

MatmulCall describe_matmul(const ConstTensorView& x, const ConstTensorView& weight,
                           const ConstTensorView& bias, const TensorView& y) {
    MatmulCall call{};
    call.x = x.data;
    call.weight = weight.data;
    call.bias = bias.data;
    call.y = y.data;
    call.x_stride = x.stride(0);
    call.y_stride = y.stride(0);
    call.tokens = static_cast<int>(x.dim(0));
    call.in = static_cast<int>(x.dim(1));
    call.out = static_cast<int>(y.dim(1));
    call.x_type = x.dtype;
    call.bias_type = bias.dtype;
    call.y_type = y.dtype;
    call.x_aligned = row_layout(x).aligned;
    call.weight_aligned = row_layout(weight).aligned;
    call.pairs_aligned = reinterpret_cast<uintptr_t>(y.data) % 8 == 0 && y.stride(0) % 2 == 0;
    return call;
}

void gemm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
          const ConstTensorView& bias, DType compute_type, ops::MatmulOutput output,
          const TensorView& y) {
    MatmulCall call = describe_matmul(x, weight, bias, y);
    call.accumulate = output == ops::MatmulOutput::accumulate;
    select_gemm(context, call, weight.dtype, compute_type);
}

void gemv(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
          const ConstTensorView& bias, DType compute_type, ops::MatmulOutput output,
          const TensorView& y) {
    MatmulCall call = describe_matmul(x, weight, bias, y);
    call.accumulate = output == ops::MatmulOutput::accumulate;
    launch_gemv(context, call, compute_type);
}

}  // namespace nvllm::cuda
