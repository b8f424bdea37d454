// Checks of rotary embedding, and the choice of device.
#include "kernels/ops/rope.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_cos_sin(const Context& context, const ViewLayout& view, int64_t tokens, const char* op) {
    check_rows(context, view, 2, op);
    NVLLM_CHECK(view.rank == 2 && view.dim(0) == tokens && view.dtype == DType::f32,
                std::string(op) + ": angles " + view.describe());
}

void check_frequencies(const Context& context, const ConstTensorView& frequencies,
                       const TensorView& cosines, const ConstTensorView& choices) {
    if (choices.data == nullptr) {
        return check_vector(context, frequencies, DType::f32, cosines.dim(1), "rope_cos_sin");
    }
    check_vector(context, choices, DType::i32, cosines.dim(0), "rope_cos_sin");
    check_rows(context, frequencies, 2, "rope_cos_sin");
    NVLLM_CHECK(frequencies.rank == 2 && frequencies.dtype == DType::f32 &&
                    frequencies.dim(1) == cosines.dim(1) && frequencies.contiguous(),
                "rope_cos_sin: frequencies " + frequencies.describe());
}

}  // namespace

void rope_cos_sin(const Context& context, const ConstTensorView& positions,
                  const ConstTensorView& inverse_frequencies, float attention_scaling,
                  const TensorView& cosines, const TensorView& sines,
                  const ConstTensorView& choices) {
    const BackendOps* device = module_ops(context, "rope_cos_sin");
    check_cos_sin(context, cosines, cosines.dim(0), "rope_cos_sin");
    check_cos_sin(context, sines, cosines.dim(0), "rope_cos_sin");
    check_vector(context, positions, DType::i32, cosines.dim(0), "rope_cos_sin");
    check_frequencies(context, inverse_frequencies, cosines, choices);
    NVLLM_CHECK(sines.dim(1) == cosines.dim(1), "rope_cos_sin: sines " + sines.describe());
    run_unless_dry(context, device != nullptr ? device->rope_cos_sin : cpu::rope_cos_sin, positions,
                   inverse_frequencies, attention_scaling, cosines, sines, choices);
}

void rope(const Context& context, const ConstTensorView& cosines, const ConstTensorView& sines,
          RopePairs pairs, const TensorView& x) {
    const BackendOps* device = module_ops(context, "rope");
    check_rows(context, x, 3, "rope");
    NVLLM_CHECK(x.rank == 3, "rope cannot take " + x.describe());
    check_cos_sin(context, cosines, x.dim(0), "rope");
    check_cos_sin(context, sines, x.dim(0), "rope");
    NVLLM_CHECK(cosines.dim(1) == sines.dim(1) && 2 * cosines.dim(1) <= x.dim(2),
                "rope: " + cosines.describe() + " for " + x.describe());
    run_unless_dry(context, device != nullptr ? device->rope : cpu::rope, cosines, sines, pairs, x);
}

void position_factors(const Context& context, const ConstTensorView& positions, float beta,
                      int64_t original, int64_t offset, const TensorView& factors) {
    const BackendOps* device = module_ops(context, "position_factors");
    check_vector(context, factors, DType::f32, factors.dim(0), "position_factors");
    check_vector(context, positions, DType::i32, factors.dim(0), "position_factors");
    NVLLM_CHECK(original > 0 && offset >= 0, "position_factors needs a context");
    run_unless_dry(context, device != nullptr ? device->position_factors : cpu::position_factors,
                   positions, beta, original, offset, factors);
}

}  // namespace nvllm::ops
