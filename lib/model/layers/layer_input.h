// Vectors that each layer has of its own for a token, beside the residual (Gemma Team 2025, Gemma
// 3n's per-layer embeddings).
#pragma once

#include <cstdint>

#include "lib/model/layers/mlp_function.h"
#include "lib/model/layers/norm.h"
#include "lib/model/model.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// How a block adds its vector: hidden += norm(out(f(gate(hidden)) * vector)).
struct LayerInput {
    LinearWeight gate;  // [hidden] → [size]
    MlpFunction activation;
    LinearWeight out;  // [size] → [hidden]
    Norm norm;

    // vector: activations [tokens, size], rows may be strided; hidden: [tokens, hidden].
    void add(const Context& context, const ConstTensorView& vector, const TensorView& hidden) const;

    size_t bytes() const { return gate.bytes() + out.bytes() + norm.bytes(); }
};

// The vectors of all layers: (norm(projection(embedding) / sqrt(hidden)) + table[token]) / sqrt(2).
struct LayerInputs {
    int64_t size = 0;  // of a layer's
    Tensor table;      // [vocab, layers * size]
    float table_scale = 1.0f;
    LinearWeight projection;  // [hidden] → [layers * size]
    Norm norm;                // of a layer's

    // embeddings: activations [tokens, hidden]. Returns [tokens, layers * size] on the arena.
    TensorView of_step(const ForwardContext& batch, const ConstTensorView& embeddings) const;

    size_t bytes() const { return table.bytes() + projection.bytes() + norm.bytes(); }
};

}  // namespace nvllm
