// Checks of matmuls, and the choice of device.
#include "kernels/ops/matmul.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check(const Context& context, const ConstTensorView& x, std::span<const MatmulWeight> weights,
           DType compute_type, const TensorView& y) {
    check_rows(context, x, 2, "matmul");
    check_rows(context, y, 2, "matmul");
    NVLLM_CHECK(is_float_type(compute_type),
                std::string("matmul cannot multiply in ") + dtype_name(compute_type));
    NVLLM_CHECK(y.dtype == x.dtype || y.dtype == DType::f32,
                "matmul: " + x.describe() + " to " + y.describe());
    int64_t columns = 0;
    for (const auto& [weight, bias] : weights) {
        NVLLM_CHECK(is_float_type(weight.dtype) && weight.rank == 2 && weight.contiguous() &&
                        weight.dtype == weights.front().weight.dtype,
                    "matmul cannot take weights " + weight.describe());
        NVLLM_CHECK(x.rank == 2 && y.rank == 2 && x.dim(1) >= 1 && weight.dim(1) == x.dim(1) &&
                        y.dim(0) == x.dim(0),
                    "matmul: " + x.describe() + " by " + weight.describe() + " to " + y.describe());
        check_device(context, weight, "matmul");
        if (bias.data != nullptr) check_weights(context, bias, weight.dim(0), "matmul bias");
        columns += weight.dim(0);
    }
    NVLLM_CHECK(columns == y.dim(1), "matmul: " + x.describe() + " by " + std::to_string(columns) +
                                         " columns of weights to " + y.describe());
}

}  // namespace

void matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
            const ConstTensorView& bias, DType compute_type, MatmulOutput output,
            const TensorView& y) {
    const MatmulWeight by{weight, bias};
    fused_matmul(context, x, {&by, 1}, compute_type, output, y);
}

void fused_matmul(const Context& context, const ConstTensorView& x,
                  std::span<const MatmulWeight> weights, DType compute_type, MatmulOutput output,
                  const TensorView& y) {
    const BackendOps* device = module_ops(context, "matmul");
    check(context, x, weights, compute_type, y);
    if (device == nullptr) {
        return cpu::fused_matmul(context, x, weights, compute_type, output, y);
    }
    int64_t column = 0;
    for (const auto& [weight, bias] : weights) {
        const int64_t out = weight.dim(0);
        device->matmul(context, x, weight, bias, compute_type, output, y.columns(column, out));
        column += out;
    }
}

}  // namespace nvllm::ops
