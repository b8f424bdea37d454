// The ops of a head of classes.
#include "lib/model/layers/classifier_head.h"

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/layers/scratch.h"
#include "lib/model/weights/dense.h"

namespace nvllm {
namespace {

void apply_function(const Context& context, const std::optional<MlpFunction>& function,
                    const TensorView& x) {
    if (function) {
        function->apply(context, x);
    } else {
        ops::soft_cap(context, 1.0f, x);  // 1 * tanh(x / 1)
    }
}

}  // namespace

TensorView ClassifierHead::apply(const Context& context, const ConstTensorView& hidden) const {
    NVLLM_CHECK(num_classes > 0, "this model has no head of classes");
    const int64_t rows = hidden.dim(0);
    const TensorView values = take_values(context, DType::f32, {rows, num_classes});
    const ScratchArena::Scope scope(*context.scratch);
    ConstTensorView input = hidden;
    if (dense.out() > 0) {
        const TensorView inner = take_activations(context, {rows, dense.out()});
        dense.apply(context, hidden, ops::MatmulOutput::overwrite, inner);
        apply_function(context, function, inner);
        if (norm) norm->apply(context, inner, inner);
        input = inner;
    }
    classes.apply(context, input, ops::MatmulOutput::overwrite, values);
    return values;
}

LinearWeight load_head_linear(WeightSource& source, const std::string& name, int64_t in,
                              int64_t out, bool bias) {
    const LinearSpec linear{name, in, out, bias, ShardAxis::none};
    Tensor weight = source.read_placed_matrix(linear.weight(), {out, in}, {});
    std::vector<std::unique_ptr<LinearPart>> parts;
    parts.push_back(
        make_dense_part(std::move(weight), read_bias(source, linear), source.compute_type()));
    return LinearWeight(std::move(parts));
}

}  // namespace nvllm
