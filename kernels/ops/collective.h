// Operations of all ranks of a group over activations: what layers call where a model is shared
// out. The groups are the context's; without one there is nothing to do.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// How many ranks compute a layer together; 1 where the context has no group.
int num_tensor_ranks(const Context& context);

// values of every rank become the sum over the tensor group, in the order of the ranks. Values:
// contiguous activations or float32.
void all_reduce(const Context& context, const TensorView& values);

// out [rows, ranks * width]: the columns of all ranks side by side. x: contiguous [rows, width], of
// one type with `out`. Uses scratch.
void gather_columns(const Context& context, const ConstTensorView& x, const TensorView& out);

// out [ranks, rows, width] or [ranks * rows, width]: the rows of all ranks one behind the other. x:
// contiguous [rows, width].
void gather_rows_of_ranks(const Context& context, const ConstTensorView& x, const TensorView& out);

// Whether hidden states come from another stage, and go to one.
bool has_previous_stage(const Context& context);
bool has_next_stage(const Context& context);
// Contiguous activations. REQUIRES: there is such a stage, which sends or receives as many.
void receive_from_previous(const Context& context, const TensorView& hidden);
void send_to_next(const Context& context, const ConstTensorView& hidden);

}  // namespace nvllm::ops
