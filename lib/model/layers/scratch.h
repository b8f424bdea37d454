// Temporaries of layers: views on the step's scratch arena.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm {

// Memory that lives until the arena's reset() or the Scope around it ends.
inline TensorView take_values(const Context& context, DType dtype,
                              std::initializer_list<int64_t> shape) {
    const ViewLayout layout = ViewLayout::dense(dtype, shape, context.device);
    const auto bytes = static_cast<size_t>(layout.numel()) * dtype_bytes(dtype);
    return {context.scratch->take(bytes), layout};
}

// The same in the type of activations.
inline TensorView take_activations(const Context& context, std::initializer_list<int64_t> shape) {
    return take_values(context, context.activations, shape);
}

// Where temporaries of the host lie.
inline ScratchArena& host_scratch(const Context& context) {
    return context.host_scratch != nullptr ? *context.host_scratch : *context.scratch;
}

// `count` values of the host where ops read them: on a device a copy. Not read in a dry run.
inline ConstTensorView placed(const Context& context, const void* host, DType dtype,
                              int64_t count) {
    const ComputeDevice device(context);
    if (device.is_cpu()) return {host, dtype, {count}};
    const TensorView copy = take_values(context, dtype, {count});
    if (context.is_dry_run() || count == 0) return copy;
    device.copy_in(context.stream, copy.data, host,
                   static_cast<size_t>(count) * dtype_bytes(dtype));
    return copy;
}

}  // namespace nvllm
