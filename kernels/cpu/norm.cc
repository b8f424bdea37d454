// Normalisations on the CPU, one row at a time.
#include "kernels/ops/cpu_ops.h"

#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {

void rms_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
              const ops::RmsNormOptions& options, const TensorView& out) {
    const RowIndex source(x);
    const RowIndex target(out);
    const auto kernel = kernels().rms_norm[float_type_index(weight.dtype)];
    parallel_rows(context, source.count(), source.width(), [&](int64_t row) {
        kernel(x.as<float>() + source.offset(row), weight.data, options.epsilon,
               options.weight_offset, out.as<float>() + target.offset(row), source.width());
    });
}

void layer_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, float epsilon, const TensorView& out) {
    const RowIndex source(x);
    const RowIndex target(out);
    const auto kernel = kernels().layer_norm[float_type_index(weight.dtype)];
    parallel_rows(context, source.count(), source.width(), [&](int64_t row) {
        kernel(x.as<float>() + source.offset(row), weight.data, bias.data, epsilon,
               out.as<float>() + target.offset(row), source.width());
    });
}

}  // namespace nvllm::cpu
