// Checks of layers of experts, and the choice of device.
#include "kernels/ops/moe.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_matrix(const Context& context, const ViewLayout& view, DType dtype, const char* op) {
    NVLLM_CHECK(view.dtype == dtype && view.rank == 2 && view.contiguous(),
                std::string(op) + " cannot take " + view.describe());
    check_device(context, view, op);
}

}  // namespace

void route(const Context& context, const ConstTensorView& logits, bool normalize,
           const TensorView& experts, const TensorView& weights) {
    const BackendOps* device = module_ops(context, "route");
    check_rows(context, logits, 2, "route");
    check_matrix(context, experts, DType::i32, "route");
    check_matrix(context, weights, DType::f32, "route");
    NVLLM_CHECK(logits.rank == 2 && same_shape(experts, weights) &&
                    experts.dim(0) == logits.dim(0) && experts.dim(1) >= 1 &&
                    experts.dim(1) <= logits.dim(1) && logits.dim(1) <= kMaxExperts,
                "route: " + logits.describe() + " to " + experts.describe());
    run_unless_dry(context, optional_op(device, &BackendOps::route, &cpu::route, "route"), logits,
                   normalize, experts, weights);
}

void sort_by_expert(const Context& context, const ConstTensorView& experts,
                    const TensorView& starts, const TensorView& order, const TensorView& tokens) {
    constexpr const char* kOp = "sort_by_expert";
    const BackendOps* device = module_ops(context, kOp);
    check_matrix(context, experts, DType::i32, kOp);
    check_vector(context, starts, DType::i32, starts.dim(0), kOp);
    check_vector(context, order, DType::i32, experts.numel(), kOp);
    check_vector(context, tokens, DType::i32, experts.numel(), kOp);
    NVLLM_CHECK(starts.dim(0) >= 2 && starts.dim(0) <= kMaxExperts + 1,
                std::string(kOp) + ": " + starts.describe());
    run_unless_dry(
        context,
        optional_op(device, &BackendOps::sort_by_expert, &cpu::sort_by_expert, "sort_by_expert"),
        experts, starts, order, tokens);
}

void grouped_matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& starts,
                    const ConstTensorView& weight, DType compute_type, const TensorView& y) {
    constexpr const char* kOp = "grouped_matmul";
    const BackendOps* device = module_ops(context, kOp);
    check_rows(context, x, 2, kOp);
    check_rows(context, y, 2, kOp);
    check_device(context, weight, kOp);
    NVLLM_CHECK(is_float_type(weight.dtype) && weight.rank == 3 && has_contiguous_blocks(weight),
                std::string(kOp) + " cannot take weights " + weight.describe());
    check_vector(context, starts, DType::i32, weight.dim(0) + 1, kOp);
    NVLLM_CHECK(x.rank == 2 && y.rank == 2 && x.dim(1) >= 1 && weight.dim(2) == x.dim(1) &&
                    y.dim(0) == x.dim(0) && y.dim(1) == weight.dim(1) &&
                    (y.dtype == x.dtype || y.dtype == DType::f32) && is_float_type(compute_type),
                std::string(kOp) + ": " + x.describe() + " by " + weight.describe() + " to " +
                    y.describe());
    optional_op(device, &BackendOps::grouped_matmul, &cpu::grouped_matmul, "grouped_matmul")(
        context, x, starts, weight, compute_type, y);
}

void add_expert_outputs(const Context& context, const ConstTensorView& x,
                        const ConstTensorView& order, const ConstTensorView& weights,
                        MatmulOutput output, const TensorView& y) {
    constexpr const char* kOp = "add_expert_outputs";
    const BackendOps* device = module_ops(context, kOp);
    check_rows(context, x, 2, kOp);
    check_rows(context, y, 2, kOp);
    check_matrix(context, weights, DType::f32, kOp);
    check_vector(context, order, DType::i32, weights.numel(), kOp);
    NVLLM_CHECK(x.rank == 2 && y.rank == 2 && x.dtype == y.dtype && x.dim(1) == y.dim(1) &&
                    x.dim(0) == weights.numel() && y.dim(0) == weights.dim(0),
                std::string(kOp) + ": " + x.describe() + " to " + y.describe());
    optional_op(device, &BackendOps::add_expert_outputs, &cpu::add_expert_outputs,
                "add_expert_outputs")(context, x, order, weights, output, y);
}

void add_weighted_rows(const Context& context, const ConstTensorView& x,
                       const ConstTensorView& rows, const ConstTensorView& weights,
                       const TensorView& y) {
    const BackendOps* device = module_ops(context, "add_weighted_rows");
    check_rows(context, x, 2, "add_weighted_rows");
    check_rows(context, y, 2, "add_weighted_rows");
    NVLLM_CHECK(x.rank == 2 && y.rank == 2 && x.dtype == y.dtype && x.dim(1) == y.dim(1),
                "add_weighted_rows: " + x.describe() + " to " + y.describe());
    check_vector(context, rows, DType::i32, x.dim(0), "add_weighted_rows");
    check_vector(context, weights, DType::f32, x.dim(0), "add_weighted_rows");
    run_unless_dry(context, device != nullptr ? device->add_weighted_rows : cpu::add_weighted_rows,
                   x, rows, weights, y);
}

}  // namespace nvllm::ops
