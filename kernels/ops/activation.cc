// Checks of the MLP's functions, and the choice of device.
#include "kernels/ops/activation.h"

#include "kernels/cpu/activation.h"
#include "kernels/ops/check.h"

namespace nvllm::ops {

void activation(const Context& context, Activation function, const ConstTensorView& x,
                const TensorView& out) {
    require_cpu(context, "activation");
    check_rows(x, kMaxRank, "activation");
    check_rows(out, kMaxRank, "activation");
    NVLLM_CHECK(same_shape(x, out), "activation: " + x.describe() + " to " + out.describe());
    cpu::activation(context, function, x, out);
}

void gated_activation(const Context& context, Activation function, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out) {
    require_cpu(context, "gated_activation");
    check_rows(gate, kMaxRank, "gated_activation");
    check_rows(up, kMaxRank, "gated_activation");
    check_rows(out, kMaxRank, "gated_activation");
    NVLLM_CHECK(
        same_shape(gate, up) && same_shape(gate, out),
        "gated_activation: " + gate.describe() + " and " + up.describe() + " to " + out.describe());
    cpu::gated_activation(context, function, gate, up, out);
}

}  // namespace nvllm::ops
