// Temporaries of layers: float32 views on the step's scratch arena, and how much of it they take.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm {

// A float32 tensor that lives until the arena's reset() or the Scope around it ends.
inline TensorView take_activations(const Context& context, std::initializer_list<int64_t> shape) {
    const ViewLayout layout = ViewLayout::dense(DType::f32, shape, context.device);
    const auto bytes = static_cast<size_t>(layout.numel()) * sizeof(float);
    return {context.scratch->take(bytes), layout};
}

// What the arena needs for `bytes`, alignment included.
inline size_t scratch_for_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

// What take_activations() needs for `count` values in all.
inline size_t scratch_for_activations(int64_t count) {
    return scratch_for_bytes(static_cast<size_t>(count) * sizeof(float));
}

}  // namespace nvllm
