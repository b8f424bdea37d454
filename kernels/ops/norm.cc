// Checks of the normalisations, and the choice of device.
#include "kernels/ops/norm.h"

#include "kernels/cpu/norm.h"
#include "kernels/ops/check.h"

namespace nvllm::ops {
namespace {

void check_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                const TensorView& out, const char* op) {
    require_cpu(context, op);
    check_rows(x, 3, op);
    check_rows(out, 3, op);
    NVLLM_CHECK(same_shape(x, out),
                std::string(op) + ": " + x.describe() + " to " + out.describe());
    check_weights(weight, x.dim(x.rank - 1), op);
}

}  // namespace

void rms_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
              const RmsNormOptions& options, const TensorView& out) {
    check_norm(context, x, weight, out, "rms_norm");
    cpu::rms_norm(context, x, weight, options, out);
}

void layer_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, float epsilon, const TensorView& out) {
    check_norm(context, x, weight, out, "layer_norm");
    if (bias.data != nullptr) check_vector(bias, weight.dtype, weight.dim(0), "layer_norm");
    cpu::layer_norm(context, x, weight, bias, epsilon, out);
}

}  // namespace nvllm::ops
