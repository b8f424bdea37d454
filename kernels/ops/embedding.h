// Rows of a table, by index.
#pragma once

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// Which rows of a larger table a table has.
struct TableRows {
    int64_t first = 0;
    bool is_part = false;  // an id of no row here gives zeros
};

// out[t] = table[ids[t] - rows.first] * scale.
// table: float32, bfloat16 or float16 [rows, hidden]; ids: int32 [tokens], each in [0, rows) unless
// the table is a part; out: activations [tokens, hidden].
void embedding(const Context& context, const ConstTensorView& table, const ConstTensorView& ids,
               float scale, const TensorView& out, const TableRows& rows = {});

}  // namespace nvllm::ops
