// Checks of matrix products, and the choice of device.
#include "kernels/ops/matmul.h"

#include "kernels/cpu/matmul.h"
#include "kernels/ops/check.h"

namespace nvllm::ops {
namespace {

void check(const Context& context, const ConstTensorView& x, const MatmulWeight& by,
           DType product_type, const TensorView& y) {
    const auto& [weight, bias] = by;
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
}

}  // namespace

void matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
            const ConstTensorView& bias, DType product_type, MatmulOutput output,
            const TensorView& y) {
    const BackendOps* device = module_ops(context, "matmul");
    const MatmulWeight by{weight, bias};
    check(context, x, by, product_type, y);
    if (device != nullptr) return device->matmul(context, x, weight, bias, product_type, output, y);
    cpu::joined_matmul(context, x, {&by, 1}, product_type, output, y);
}

void joined_matmul(const Context& context, const ConstTensorView& x,
                   std::span<const MatmulWeight> weights, DType product_type, MatmulOutput output,
                   const TensorView& y) {
    const BackendOps* device = module_ops(context, "matmul");
    int64_t column = 0;
    for (const MatmulWeight& by : weights) {
        const int64_t out = by.weight.dim(0);
        NVLLM_CHECK(column + out <= y.dim(1), "joined_matmul: more columns than " + y.describe());
        const TensorView columns = y.columns(column, out);
        check(context, x, by, product_type, columns);
        NVLLM_CHECK(by.weight.dtype == weights.front().weight.dtype,
                    "joined_matmul: weights of several types");
        if (device != nullptr) {
            device->matmul(context, x, by.weight, by.bias, product_type, output, columns);
        }
        column += out;
    }
    NVLLM_CHECK(column == y.dim(1), "joined_matmul: fewer columns than " + y.describe());
    if (device == nullptr) cpu::joined_matmul(context, x, weights, product_type, output, y);
}

size_t matmul_scratch_bytes(int64_t tokens, int64_t in, DType product_type, DType weight_type,
                            const ScratchTerms& terms) {
    return terms.backend != nullptr
               ? terms.backend->ops.matmul_scratch_bytes(tokens, in, terms.num_threads)
               : cpu::matmul_scratch_bytes(tokens, in, product_type, weight_type,
                                           terms.num_threads);
}

}  // namespace nvllm::ops
