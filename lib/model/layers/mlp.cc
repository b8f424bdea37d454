// The order of ops of a feed-forward layer.
#include "lib/model/layers/mlp.h"

#include "kernels/ops/elementwise.h"
#include "lib/model/layers/scaled.h"

namespace nvllm {

void Mlp::apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput how,
                const TensorView& y) const {
    const TensorView inner = take_activations(context, {x.dim(0), in.out()});
    in.apply(context, x, ops::MatmulOutput::overwrite, inner);
    if (!gated) {
        activation.apply(context, inner);
        apply_scaled(context, down, out_scale, inner, how, y);
        return;
    }
    const int64_t intermediate = in.out() / 2;
    if (clamped) {
        const TensorView out = take_activations(context, {x.dim(0), intermediate});
        ops::clamped_swiglu(context, clamped->alpha, clamped->limit, clamped->order, inner, out);
        down.apply(context, out, how, y);
        return;
    }
    const TensorView gate = inner.columns(0, intermediate);
    if (gate_scale != 1.0f) ops::scale(context, gate_scale, gate);
    activation.apply_gated(context, gate, inner.columns(intermediate, intermediate));
    apply_scaled(context, down, out_scale, gate, how, y);
}

}  // namespace nvllm
