// A copy or a result apart, and the factor on it.
#include "lib/model/layers/scaled.h"

#include "kernels/ops/elementwise.h"
#include "lib/model/layers/copy_rows.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {

ConstTensorView scaled(const Context& context, float factor, const ConstTensorView& x) {
    if (factor == 1.0f) return x;
    const TensorView copy = take_activations(context, {x.dim(0), x.dim(1)});
    copy_rows(context, x, copy);
    ops::scale(context, factor, copy);
    return copy;
}

void apply_scaled(const Context& context, const LinearWeight& linear, float factor,
                  const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) {
    if (factor == 1.0f) return linear.apply(context, x, how, y);
    if (how == ops::MatmulOutput::overwrite) {
        linear.apply(context, x, how, y);
        ops::scale(context, factor, y);
        return;
    }
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView out = take_activations(context, {y.dim(0), y.dim(1)});
    linear.apply(context, x, ops::MatmulOutput::overwrite, out);
    ops::scale(context, factor, out);
    ops::add(context, out, y);
}

}  // namespace nvllm
