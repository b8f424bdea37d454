// Checks of the ops of adapters, and the choice of device.
#include "kernels/ops/lora.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_linear(const Context& context, const ConstTensorView& slots, const LoraLinear& linear,
                  const ConstTensorView& inner, int64_t tokens, const char* op) {
    check_vector(context, slots, DType::i32, tokens, op);
    NVLLM_CHECK(linear.pairs != nullptr && linear.slots > 0 && linear.parts > 0 &&
                    linear.max_rank > 0 && linear.max_rank <= kMaxLoraRank,
                std::string(op) + ": adapters of a rank that is computed");
    NVLLM_CHECK(inner.dtype == DType::f32 && inner.rank == 3 && inner.dim(0) == tokens &&
                    inner.dim(1) == linear.parts && inner.dim(2) == linear.max_rank &&
                    inner.contiguous(),
                std::string(op) + ": inner values " + inner.describe());
    check_device(context, inner, op);
}

}  // namespace

void lora_shrink(const Context& context, const ConstTensorView& x, const ConstTensorView& slots,
                 const LoraLinear& linear, const TensorView& inner) {
    const BackendOps* device = module_ops(context, "lora_shrink");
    check_rows(context, x, 2, "lora_shrink");
    NVLLM_CHECK(x.rank == 2, "lora_shrink cannot take " + x.describe());
    check_linear(context, slots, linear, inner, x.dim(0), "lora_shrink");
    optional_op(device, &BackendOps::lora_shrink, &cpu::lora_shrink, "lora_shrink")(
        context, x, slots, linear, inner);
}

void lora_expand(const Context& context, const ConstTensorView& inner, const ConstTensorView& slots,
                 const LoraLinear& linear, const TensorView& y) {
    const BackendOps* device = module_ops(context, "lora_expand");
    check_rows(context, y, 2, "lora_expand");
    NVLLM_CHECK(y.rank == 2, "lora_expand cannot take " + y.describe());
    check_linear(context, slots, linear, inner, y.dim(0), "lora_expand");
    optional_op(device, &BackendOps::lora_expand, &cpu::lora_expand, "lora_expand")(
        context, inner, slots, linear, y);
}

void lora_expert_slots(const Context& context, const ConstTensorView& slots,
                       const ConstTensorView& experts, const ConstTensorView& order,
                       int64_t num_experts, const TensorView& out) {
    const BackendOps* device = module_ops(context, "lora_expert_slots");
    NVLLM_CHECK(
        experts.dtype == DType::i32 && experts.rank == 2 && experts.contiguous() && num_experts > 0,
        "lora_expert_slots cannot take " + experts.describe());
    check_device(context, experts, "lora_expert_slots");
    check_vector(context, slots, DType::i32, experts.dim(0), "lora_expert_slots");
    check_vector(context, order, DType::i32, experts.numel(), "lora_expert_slots");
    check_vector(context, out, DType::i32, experts.numel(), "lora_expert_slots");
    run_unless_dry(context,
                   optional_op(device, &BackendOps::lora_expert_slots, &cpu::lora_expert_slots,
                               "lora_expert_slots"),
                   slots, experts, order, num_experts, out);
}

void lora_select(const Context& context, const ConstTensorView& x, const ConstTensorView& slots,
                 int32_t slot, const TensorView& y) {
    const BackendOps* device = module_ops(context, "lora_select");
    check_rows(context, x, 2, "lora_select");
    check_rows(context, y, 2, "lora_select");
    NVLLM_CHECK(x.rank == 2 && same_rows(x, y),
                "lora_select: " + x.describe() + " to " + y.describe());
    check_vector(context, slots, DType::i32, x.dim(0), "lora_select");
    run_unless_dry(context,
                   optional_op(device, &BackendOps::lora_select, &cpu::lora_select, "lora_select"),
                   x, slots, slot, y);
}

}  // namespace nvllm::ops
