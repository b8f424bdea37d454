// Checks of matrix products, and the choice of device.
#include "kernels/ops/matmul.h"

#include "kernels/cpu/matmul.h"
#include "kernels/ops/check.h"

namespace nvllm::ops {

void matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
            const ConstTensorView& bias, DType product_type, MatmulOutput output,
            const TensorView& y) {
    require_cpu(context, "matmul");
    check_rows(x, 2, "matmul");
    check_rows(y, 2, "matmul");
    NVLLM_CHECK(is_float_type(weight.dtype) && weight.rank == 2 && weight.contiguous(),
                "matmul cannot take weights " + weight.describe());
    NVLLM_CHECK(x.rank == 2 && y.rank == 2 && x.dim(1) >= 1 && weight.dim(1) == x.dim(1) &&
                    y.dim(0) == x.dim(0) && y.dim(1) == weight.dim(0),
                "matmul: " + x.describe() + " by " + weight.describe() + " to " + y.describe());
    NVLLM_CHECK(is_float_type(product_type),
                std::string("matmul cannot multiply in ") + dtype_name(product_type));
    if (bias.data != nullptr) check_weights(bias, weight.dim(0), "matmul bias");
    cpu::matmul(context, x, weight, bias, product_type, output, y);
}

size_t matmul_scratch_bytes(int64_t tokens, int64_t in, int num_threads) {
    return cpu::matmul_scratch_bytes(tokens, in, num_threads);
}

}  // namespace nvllm::ops
