// Checks of dense linear algebra.
#include "kernels/ops/linalg.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_square(const Context& context, const ConstTensorView& matrix, const char* op) {
    NVLLM_CHECK(context.device.kind == DeviceKind::cpu && matrix.device.kind == DeviceKind::cpu,
                std::string(op) + " is of the CPU");
    NVLLM_CHECK(matrix.rank == 2 && matrix.dim(0) == matrix.dim(1) && matrix.dim(0) >= 1 &&
                    matrix.dtype == DType::f32 && matrix.contiguous(),
                std::string(op) + " cannot take " + matrix.describe());
}

}  // namespace

void add_gram(const Context& context, const ConstTensorView& x, DType compute_type,
              const TensorView& sum) {
    check_square(context, sum, "add_gram");
    NVLLM_CHECK(x.rank == 2 && x.dtype == DType::f32 && x.dim(1) == sum.dim(0) && x.stride(1) == 1,
                "add_gram: " + x.describe() + " to " + sum.describe());
    cpu::add_gram(context, x, compute_type, sum);
}

void mirror_lower(const Context& context, const TensorView& matrix) {
    check_square(context, matrix, "mirror_lower");
    cpu::mirror_lower(context, matrix);
}

bool cholesky(const Context& context, const TensorView& matrix) {
    check_square(context, matrix, "cholesky");
    return cpu::cholesky(context, matrix);
}

void invert_lower(const Context& context, const TensorView& matrix) {
    check_square(context, matrix, "invert_lower");
    cpu::invert_lower(context, matrix);
}

bool inverse_cholesky(const Context& context, const TensorView& matrix) {
    check_square(context, matrix, "inverse_cholesky");
    return cpu::inverse_cholesky(context, matrix);
}

}  // namespace nvllm::ops
