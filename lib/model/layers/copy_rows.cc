// An op, or where a module has none one copy of all or of each row.
#include "lib/model/layers/copy_rows.h"

#include "kernels/device.h"
#include "kernels/ops/backend_ops.h"
#include "kernels/ops/elementwise.h"

namespace nvllm {

void copy_rows(const Context& context, const ConstTensorView& x, const TensorView& out) {
    if (context.is_dry_run()) return;
    const ComputeDevice device(context);
    if (device.is_cpu() || device.backend()->ops->copy != nullptr) {
        return ops::copy(context, x, out);
    }
    const size_t bytes = static_cast<size_t>(x.dim(1)) * dtype_bytes(x.dtype);
    if (x.contiguous() && out.contiguous()) {
        device.copy_within(context.stream, out.data, x.data, bytes * static_cast<size_t>(x.dim(0)));
        return;
    }
    for (int64_t row = 0; row < x.dim(0); ++row) {
        device.copy_within(context.stream, out.rows(row, 1).data, x.rows(row, 1).data, bytes);
    }
}

}  // namespace nvllm
