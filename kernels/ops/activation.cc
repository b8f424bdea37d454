// Checks of the MLP's functions, and the choice of device.
#include "kernels/ops/activation.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {

void activation(const Context& context, Activation function, const ConstTensorView& x,
                const TensorView& out) {
    const BackendOps* device = module_ops(context, "activation");
    check_rows(context, x, kMaxRank, "activation");
    check_rows(context, out, kMaxRank, "activation");
    NVLLM_CHECK(same_rows(x, out), "activation: " + x.describe() + " to " + out.describe());
    run_unless_dry(context, device != nullptr ? device->activation : cpu::activation, function, x,
                   out);
}

void gated_activation(const Context& context, Activation function, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out) {
    const BackendOps* device = module_ops(context, "gated_activation");
    check_rows(context, gate, kMaxRank, "gated_activation");
    check_rows(context, up, kMaxRank, "gated_activation");
    check_rows(context, out, kMaxRank, "gated_activation");
    NVLLM_CHECK(
        same_rows(gate, up) && same_rows(gate, out),
        "gated_activation: " + gate.describe() + " and " + up.describe() + " to " + out.describe());
    run_unless_dry(context, device != nullptr ? device->gated_activation : cpu::gated_activation,
                   function, gate, up, out);
}

void clamped_swiglu(const Context& context, float alpha, float limit, GateOrder order,
                    const ConstTensorView& gate_up, const TensorView& out) {
    const BackendOps* device = module_ops(context, "clamped_swiglu");
    check_rows(context, gate_up, 2, "clamped_swiglu");
    check_rows(context, out, 2, "clamped_swiglu");
    NVLLM_CHECK(gate_up.rank == 2 && out.rank == 2 && gate_up.dtype == out.dtype &&
                    gate_up.dim(0) == out.dim(0) && gate_up.dim(1) == 2 * out.dim(1) && limit > 0,
                "clamped_swiglu: " + gate_up.describe() + " to " + out.describe());
    run_unless_dry(context, device != nullptr ? device->clamped_swiglu : cpu::clamped_swiglu, alpha,
                   limit, order, gate_up, out);
}

}  // namespace nvllm::ops
