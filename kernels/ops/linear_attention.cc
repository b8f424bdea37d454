// Checks of the ops over states, and the choice of device.
#include "kernels/ops/linear_attention.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_states(const Context& context, const ViewLayout& states, const char* op) {
    NVLLM_CHECK(states.dtype == DType::f32 && has_contiguous_blocks(states),
                std::string(op) + ": states " + states.describe());
    check_device(context, states, op);
}

void check_state_rows(const Context& context, const StateRows& rows, const char* op) {
    const int64_t sequences = rows.seq_lens.dim(0);
    check_vector(context, rows.query_start_loc, DType::i32, sequences + 1, op);
    check_vector(context, rows.seq_lens, DType::i32, sequences, op);
    NVLLM_CHECK(rows.slots.dtype == DType::i32 && rows.slots.rank == 2 &&
                    rows.slots.dim(0) == sequences && rows.slots.dim(1) >= 1,
                std::string(op) + ": slots " + rows.slots.describe());
    check_device(context, rows.slots, op);
}

void check_gates(const Context& context, const ViewLayout& gates, int64_t tokens, int64_t width,
                 const char* op) {
    NVLLM_CHECK(gates.dtype == DType::f32 && gates.rank == 2 && gates.dim(0) == tokens &&
                    gates.dim(1) == width && gates.contiguous(),
                std::string(op) + ": gates " + gates.describe());
    check_device(context, gates, op);
}

}  // namespace

void causal_conv1d(const Context& context, const ConstTensorView& x, const ConvWeights& weights,
                   const StateRows& rows, const TensorView& states, const TensorView& out) {
    constexpr const char* kOp = "causal_conv1d";
    const BackendOps* device = module_ops(context, kOp);
    const ConstTensorView& weight = weights.taps;
    check_rows(context, x, 2, kOp);
    check_rows(context, out, 2, kOp);
    NVLLM_CHECK(x.rank == 2 && same_rows(x, out),
                std::string(kOp) + ": " + x.describe() + " to " + out.describe());
    NVLLM_CHECK(weight.dtype == DType::f32 && weight.rank == 2 && weight.contiguous() &&
                    weight.dim(0) >= 1 && weight.dim(1) == x.dim(1),
                std::string(kOp) + ": weights " + weight.describe());
    check_device(context, weight, kOp);
    if (weights.bias.rank > 0) check_vector(context, weights.bias, DType::f32, x.dim(1), kOp);
    check_states(context, states, kOp);
    NVLLM_CHECK(states.rank == 3 && states.dim(1) == weight.dim(0) - 1 && states.dim(2) == x.dim(1),
                std::string(kOp) + ": states " + states.describe());
    check_state_rows(context, rows, kOp);
    run_unless_dry(context,
                   optional_op(device, &BackendOps::causal_conv1d, &cpu::causal_conv1d, kOp), x,
                   weights, rows, states, out);
}

void l2_norm(const Context& context, const ConstTensorView& x, float epsilon, float scale,
             const TensorView& out) {
    const BackendOps* device = module_ops(context, "l2_norm");
    check_rows(context, x, 3, "l2_norm");
    check_rows(context, out, 3, "l2_norm");
    NVLLM_CHECK(same_rows(x, out), "l2_norm: " + x.describe() + " to " + out.describe());
    run_unless_dry(context, optional_op(device, &BackendOps::l2_norm, &cpu::l2_norm, "l2_norm"), x,
                   epsilon, scale, out);
}

void state_gates(const Context& context, const ConstTensorView& a, const ConstTensorView& b,
                 const GateWeights& weights, const TensorView& decay, const TensorView& update) {
    constexpr const char* kOp = "state_gates";
    const BackendOps* device = module_ops(context, kOp);
    check_rows(context, a, 2, kOp);
    if (b.rank > 0) check_rows(context, b, 2, kOp);
    const int64_t heads = weights.a_log.dim(0);
    const bool fits = b.rank == 0 ? a.dim(1) == heads
                                  : b.dtype == a.dtype && b.dim(0) == a.dim(0) && b.dim(1) == heads;
    NVLLM_CHECK(a.rank == 2 && heads > 0 && a.dim(1) % heads == 0 && fits,
                std::string(kOp) + ": " + a.describe() + " beside " + b.describe());
    check_vector(context, weights.a_log, DType::f32, heads, kOp);
    check_vector(context, weights.dt_bias, DType::f32, a.dim(1), kOp);
    check_gates(context, decay, a.dim(0), a.dim(1), kOp);
    check_gates(context, update, a.dim(0), heads, kOp);
    run_unless_dry(context, optional_op(device, &BackendOps::state_gates, &cpu::state_gates, kOp),
                   a, b, weights, decay, update);
}

void linear_attention(const Context& context, const LinearAttentionInput& input,
                      const StateRows& rows, const TensorView& states, const TensorView& out) {
    constexpr const char* kOp = "linear_attention";
    const BackendOps* device = module_ops(context, kOp);
    for (const ConstTensorView* x : {&input.queries, &input.keys, &input.values}) {
        check_rows(context, *x, 3, kOp);
        NVLLM_CHECK(x->rank == 3 && x->dtype == out.dtype && x->dim(0) == out.dim(0),
                    std::string(kOp) + " cannot take " + x->describe());
    }
    check_rows(context, out, 3, kOp);
    const int64_t heads = input.values.dim(1);
    NVLLM_CHECK(same_shape(input.queries, input.keys) && same_shape(input.values, out) &&
                    heads % input.keys.dim(1) == 0,
                std::string(kOp) + ": " + input.keys.describe() + " beside " +
                    input.values.describe() + " to " + out.describe());
    const ConstTensorView& decay = input.decay;
    const bool by_dimension = decay.rank == 3;
    NVLLM_CHECK(!by_dimension || (decay.dim(1) == heads && decay.dim(2) == input.keys.dim(2)),
                std::string(kOp) + ": gates " + decay.describe());
    const int64_t decays = by_dimension ? heads * decay.dim(2) : heads;
    check_gates(context, by_dimension ? decay.reshaped({decay.dim(0), decays}) : decay, out.dim(0),
                decays, kOp);
    check_gates(context, input.update, out.dim(0), heads, kOp);
    if (input.skip.rank > 0) check_vector(context, input.skip, DType::f32, heads, kOp);
    check_states(context, states, kOp);
    NVLLM_CHECK(states.rank == 4 && states.dim(1) == heads && states.dim(2) == input.keys.dim(2) &&
                    states.dim(3) == out.dim(2),
                std::string(kOp) + ": states " + states.describe());
    check_state_rows(context, rows, kOp);
    run_unless_dry(context,
                   optional_op(device, &BackendOps::linear_attention, &cpu::linear_attention, kOp),
                   input, rows, states, out);
}

}  // namespace nvllm::ops
