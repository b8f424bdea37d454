// Temporaries of layers: views on the step's scratch arena, and how much of it they take.
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

// What the arena needs for `bytes`, alignment included.
inline size_t scratch_for_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

// What take_values() needs for `count` values of `dtype` in all.
inline size_t scratch_for_values(DType dtype, int64_t count) {
    return scratch_for_bytes(static_cast<size_t>(count) * dtype_bytes(dtype));
}

// What take_activations() needs for `count` values in all.
inline size_t scratch_for_activations(const ScratchTerms& terms, int64_t count) {
    return scratch_for_values(terms.activations, count);
}

// Where temporaries of the host lie.
inline ScratchArena& host_scratch(const Context& context) {
    return context.host_scratch != nullptr ? *context.host_scratch : *context.scratch;
}

}  // namespace nvllm
