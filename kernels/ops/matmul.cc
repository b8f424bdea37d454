// Checks of matrix products, and the choice of device.
#include "kernels/ops/matmul.h"

#include "kernels/cpu/matmul.h"
#include "kernels/ops/check.h"

namespace nvllm::ops {

void matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
            const ConstTensorView& bias, DType product_type, MatmulOutput output,
            const TensorView& y) {
    const BackendOps* device = module_ops(context, "matmul");
    check_rows(context, x, 2, "matmul");
    check_rows(context, y, 2, "matmul");
    NVLLM_CHECK(is_float_type(weight.dtype) && weight.rank == 2 && weight.contiguous(),
                "matmul cannot take weights " + weight.describe());
    NVLLM_CHECK(x.rank == 2 && y.rank == 2 && x.dim(1) >= 1 && weight.dim(1) == x.dim(1) &&
                    y.dim(0) == x.dim(0) && y.dim(1) == weight.dim(0),
                "matmul: " + x.describe() + " by " + weight.describe() + " to " + y.describe());
    NVLLM_CHECK(y.dtype == x.dtype || y.dtype == DType::f32,
                "matmul: " + x.describe() + " to " + y.describe());
    check_place(context, weight, "matmul");
    NVLLM_CHECK(is_float_type(product_type),
                std::string("matmul cannot multiply in ") + dtype_name(product_type));
    if (bias.data != nullptr) check_weights(context, bias, weight.dim(0), "matmul bias");
    (device != nullptr ? device->matmul : cpu::matmul)(context, x, weight, bias, product_type,
                                                       output, y);
}

size_t matmul_scratch_bytes(int64_t tokens, int64_t in, DType product_type, DType weight_type,
                            const ScratchTerms& terms) {
    return terms.backend != nullptr
               ? terms.backend->ops.matmul_scratch_bytes(tokens, in, terms.num_threads)
               : cpu::matmul_scratch_bytes(tokens, in, product_type, weight_type,
                                           terms.num_threads);
}

}  // namespace nvllm::ops
