// Table look-up on the GPU.
//
// Grid: tokens by parts of a row, a block of up to 256 threads for 2,048 values; no shared memory.
// 4 bytes moved per output of bfloat16. An id outside the table gives a row of NaN: a mistake that
// shows, instead of memory that is someone else's. Of a part of a table it gives zeros.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/elements.h"

namespace nvllm::cuda {
namespace {

template <typename W, typename T>
__global__ void __launch_bounds__(kMaxThreads)
    embedding_kernel(Rows<const W> table, const int32_t* __restrict__ ids, float scale,
                     ops::TableRows rows, Rows<T> out) {
    for_my_run(out.layout, [&](int64_t token, int64_t column, int64_t count) {
        const int64_t id = ids[token] - rows.first;
        const bool exists = id >= 0 && id < table.layout.count;
        const float missing = rows.is_part ? 0.0f : NAN;
        float values[kRun];
        if (exists) table.load(id, column, count, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] = exists ? values[i] * scale : missing;
        out.store(token, column, count, values);
    });
}

}  // namespace

void embedding(const Context& context, const ConstTensorView& table, const ConstTensorView& ids,
               float scale, const TensorView& out, const ops::TableRows& rows) {
    with_float_type(table.dtype, [&](auto stored) {
        using W = typename decltype(stored)::Type;
        with_float_type(out.dtype, [&](auto element) {
            using T = typename decltype(element)::Type;
            launch_over_runs(context, embedding_kernel<W, T>, row_layout(out), rows_of<W>(table),
                             ids.as<int32_t>(), scale, rows, rows_of<T>(out));
        });
    });
}

}  // namespace nvllm::cuda
