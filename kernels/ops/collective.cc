// Checks, and the layout of what several ranks gather.
#include "kernels/ops/collective.h"

#include "kernels/collectives.h"
#include "kernels/ops/check.h"
#include "kernels/ops/elementwise.h"

namespace nvllm::ops {

int num_tensor_ranks(const Context& context) {
    return context.tensor_ranks == nullptr ? 1 : context.tensor_ranks->num_ranks();
}

void all_reduce(const Context& context, const TensorView& values) {
    NVLLM_CHECK(values.contiguous(), "all_reduce takes contiguous values");
    if (context.is_dry_run() || context.tensor_ranks == nullptr || values.numel() == 0) return;
    context.tensor_ranks->all_reduce(context.stream, values);
}

void gather_columns(const Context& context, const ConstTensorView& x, const TensorView& out) {
    const int64_t rows = x.dim(0);
    const int64_t width = x.dim(1);
    const int64_t ranks = out.dim(1) / width;
    NVLLM_CHECK(
        x.contiguous() && x.dtype == out.dtype && out.dim(0) == rows && out.dim(1) == ranks * width,
        "gather_columns: " + x.describe() + " of some ranks to " + out.describe());
    const ScratchArena::Scope scope(*context.scratch);
    const ViewLayout layout = ViewLayout::dense(x.dtype, {ranks, rows, width}, context.device);
    const TensorView gathered(
        context.scratch->take(static_cast<size_t>(layout.numel()) * dtype_bytes(x.dtype)), layout);
    if (context.is_dry_run() || rows == 0) return;
    NVLLM_CHECK(num_tensor_ranks(context) == ranks, "columns come from the ranks of the group");
    context.tensor_ranks->all_gather(context.stream, x, gathered);
    for (int64_t rank = 0; rank < ranks; ++rank) {
        copy(context, gathered.rows(rank, 1).reshaped({rows, width}),
             out.columns(rank * width, width));
    }
}

void gather_rows_of_ranks(const Context& context, const ConstTensorView& x, const TensorView& out) {
    NVLLM_CHECK(x.contiguous() && out.contiguous() && x.dtype == out.dtype,
                "gather_rows_of_ranks: " + x.describe() + " to " + out.describe());
    if (context.is_dry_run() || x.numel() == 0) return;
    context.tensor_ranks->all_gather(context.stream, x, out);
}

bool has_previous_stage(const Context& context) {
    return context.pipeline != nullptr && context.pipeline->previous.has_value();
}

bool has_next_stage(const Context& context) {
    return context.pipeline != nullptr && context.pipeline->next.has_value();
}

void receive_from_previous(const Context& context, const TensorView& hidden) {
    if (context.is_dry_run()) return;
    context.pipeline->ranks->receive(context.stream, hidden, *context.pipeline->previous);
}

void send_to_next(const Context& context, const ConstTensorView& hidden) {
    if (context.is_dry_run()) return;
    context.pipeline->ranks->send(context.stream, hidden, *context.pipeline->next);
}

}  // namespace nvllm::ops
