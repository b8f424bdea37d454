// Checks of the normalisations, and the choice of device.
#include "kernels/ops/norm.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                const TensorView& out, const char* op) {
    check_rows(context, x, 3, op);
    check_rows(context, out, 3, op);
    NVLLM_CHECK(same_rows(x, out), std::string(op) + ": " + x.describe() + " to " + out.describe());
    check_weights(context, weight, x.dim(x.rank - 1), op);
}

}  // namespace

void rms_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
              const RmsNormOptions& options, const TensorView& out) {
    const BackendOps* device = module_ops(context, "rms_norm");
    check_norm(context, x, weight, out, "rms_norm");
    run_unless_dry(context, device != nullptr ? device->rms_norm : cpu::rms_norm, x, weight,
                   options, out);
}

void layer_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, float epsilon, const TensorView& out) {
    const BackendOps* device = module_ops(context, "layer_norm");
    check_norm(context, x, weight, out, "layer_norm");
    if (bias.data != nullptr)
        check_vector(context, bias, weight.dtype, weight.dim(0), "layer_norm");
    run_unless_dry(context, device != nullptr ? device->layer_norm : cpu::layer_norm, x, weight,
                   bias, epsilon, out);
}

}  // namespace nvllm::ops
