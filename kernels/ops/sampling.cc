// Checks of sampling, and the choice of device.
#include "kernels/ops/sampling.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_logits(const Context& context, const ViewLayout& logits, const char* op) {
    check_rows(context, logits, 2, op);
    NVLLM_CHECK(logits.rank == 2 && logits.dtype == DType::f32 && logits.dim(1) > 0,
                std::string(op) + " cannot take " + logits.describe());
}

// `count` records of `bytes`; any number of them where count is negative.
void check_records(const Context& context, const ConstTensorView& records, int64_t count,
                   size_t bytes, const char* op) {
    NVLLM_CHECK(records.dtype == DType::u8 && records.rank == 2 && records.contiguous() &&
                    records.dim(1) == static_cast<int64_t>(bytes) &&
                    (count < 0 || records.dim(0) == count),
                std::string(op) + ": records " + records.describe());
    check_device(context, records, op);
}

}  // namespace

void change_scores(const Context& context, const LogitsAdjustments& changes,
                   const TensorView& logits) {
    constexpr const char* kOp = "change_scores";
    const BackendOps* device = module_ops(context, kOp);
    check_logits(context, logits, kOp);
    if (changes.allowed.data != nullptr) {
        const ConstTensorView& allowed = changes.allowed;
        NVLLM_CHECK(allowed.dtype == DType::u32 && allowed.rank == 2 && allowed.contiguous() &&
                        allowed.dim(0) == logits.dim(0) &&
                        allowed.dim(1) == (logits.dim(1) + 31) / 32,
                    std::string(kOp) + ": allowed tokens " + allowed.describe());
        check_device(context, allowed, kOp);
    }
    if (changes.biases.data != nullptr)
        check_records(context, changes.biases, -1, sizeof(LogitBias), kOp);
    if (changes.seen.data != nullptr) {
        check_records(context, changes.seen, -1, sizeof(SeenScore), kOp);
        check_records(context, changes.penalties, logits.dim(0), sizeof(LogitPenalties), kOp);
    }
    run_unless_dry(
        context,
        optional_op(device, &BackendOps::change_scores, &cpu::change_scores, "change_scores"),
        changes, logits);
}

void sample(const Context& context, const ConstTensorView& logits, const ConstTensorView& rows,
            const TensorView& tokens) {
    const BackendOps* device = module_ops(context, "sample");
    check_logits(context, logits, "sample");
    check_records(context, rows, logits.dim(0), sizeof(SamplingRow), "sample");
    check_vector(context, tokens, DType::i32, logits.dim(0), "sample");
    run_unless_dry(context, optional_op(device, &BackendOps::sample, &cpu::sample, "sample"),
                   logits, rows, tokens);
}

void logprobs(const Context& context, const ConstTensorView& logits, const ConstTensorView& chosen,
              const LogprobsOutput& out) {
    constexpr const char* kOp = "logprobs";
    const BackendOps* device = module_ops(context, kOp);
    check_logits(context, logits, kOp);
    const int64_t rows = logits.dim(0);
    check_vector(context, chosen, DType::i32, rows, kOp);
    check_vector(context, out.logprobs, DType::f32, rows, kOp);
    check_vector(context, out.ranks, DType::i32, rows, kOp);
    const TensorView& top = out.top_tokens;
    NVLLM_CHECK(top.dtype == DType::i32 && top.rank == 2 && top.dim(0) == rows &&
                    top.dim(1) <= kMaxTopLogprobs && top.contiguous(),
                std::string(kOp) + ": top tokens " + top.describe());
    NVLLM_CHECK(out.top_logprobs.dtype == DType::f32 && same_shape(top, out.top_logprobs) &&
                    out.top_logprobs.contiguous(),
                std::string(kOp) + ": top logprobs " + out.top_logprobs.describe());
    check_device(context, top, kOp);
    check_device(context, out.top_logprobs, kOp);
    run_unless_dry(context, optional_op(device, &BackendOps::logprobs, &cpu::logprobs, "logprobs"),
                   logits, chosen, out);
}

}  // namespace nvllm::ops
