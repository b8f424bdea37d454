// Converts on the device, then copies.
#include "lib/execute/host_rows.h"

#include "kernels/ops/elementwise.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {

ConstTensorView HostRows::fetch(const Context& context, const ConstTensorView& rows) {
    if (device_.is_cpu()) return rows;
    const ScratchArena::Scope scope(*context.scratch);
    ConstTensorView source = rows;
    if (rows.dtype != DType::f32) {
        const TensorView upcast = take_values(context, DType::f32, {rows.dim(0), rows.dim(1)});
        ops::convert(context, rows, upcast);
        source = upcast;
    }
    if (context.is_dry_run()) return source;
    const size_t bytes = static_cast<size_t>(source.numel()) * sizeof(float);
    if (bytes > capacity_) {
        memory_ = device_.allocate_host(bytes);
        capacity_ = bytes;
    }
    device_.copy_out(context.stream, memory_.get(), source.data, bytes);
    device_.synchronize(context.stream);
    return {memory_.get(), DType::f32, {rows.dim(0), rows.dim(1)}};
}

}  // namespace nvllm
