// Results of which each rank of the tensor group has a part: computed apart, then summed.
#pragma once

#include "kernels/context.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/matmul.h"
#include "kernels/view.h"

namespace nvllm {

// y (+)= the sum over ranks, in their order, of what compute(part) writes into `part`, shaped like
// y. One message of y's size for any number of tokens.
template <typename Compute>
void sum_over_ranks(const Context& context, ops::MatmulOutput how, const TensorView& y,
                    Compute&& compute) {
    if (how == ops::MatmulOutput::overwrite && y.contiguous()) {
        compute(y);
        return ops::all_reduce(context, y);
    }
    const ScratchArena::Scope scope(*context.scratch);
    const ViewLayout layout = ViewLayout::dense(y.dtype, {y.dim(0), y.dim(1)}, context.device);
    const TensorView part(
        context.scratch->take(static_cast<size_t>(layout.numel()) * dtype_bytes(y.dtype)), layout);
    compute(part);
    ops::all_reduce(context, part);
    if (how == ops::MatmulOutput::accumulate) return ops::add(context, part, y);
    ops::copy(context, part, y);
}

}  // namespace nvllm
