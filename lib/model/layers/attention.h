// Attention over the paged cache, with its projections.
#pragma once

#include <optional>

#include "kernels/ops/attention.h"
#include "kernels/ops/attention_input.h"
#include "lib/model/layers/norm.h"
#include "lib/model/layers/rotary.h"
#include "lib/model/model.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// Where queries and keys are normalised.
enum class QueryKeyNorm : uint8_t {
    heads,          // each head, before it is rotated
    rotated_heads,  // each head, after
    projections,    // all heads of a token as one vector, before
};

// Where a projection has gates: sigmoid(gate) times each value that is attended.
enum class OutputGate : uint8_t {
    none,
    behind_queries,  // each head's behind its query (Qwen3-Next)
    behind_values,   // all heads' behind everything else (Trinity)
};

struct Attention {
    // Which of the ranks' slices it is, that all add to the result; heads are those of the slice.
    Shard shard;
    int64_t heads = 0;
    int64_t kv_heads = 0;
    int64_t head_dim = 0;
    ops::PagedAttentionOptions options;
    OutputGate output_gate = OutputGate::none;
    // Values are keys as they were projected; the projection then gives queries and keys alone.
    bool values_are_keys = false;
    LinearWeight query_key_value;    // [hidden] → queries, keys, values of all heads, and gates
    LinearWeight output;             // [heads * head_dim] → [hidden]
    std::optional<Norm> query_norm;  // rms norms over what norm_place says
    std::optional<Norm> key_norm;
    std::optional<Norm> value_norm;  // of each head
    // The layer whose keys and values these queries attend to; empty: this one. The projection then
    // gives queries alone.
    std::optional<int32_t> kv_layer;
    QueryKeyNorm norm_place = QueryKeyNorm::heads;
    ops::RopePairs rope_pairs = ops::RopePairs::halves;
    Tensor sinks;  // float32 [heads], of ops::PagedAttentionOptions; empty: none
    // float32 [heads, distances], of ops::PagedAttentionOptions; empty: none. Layers may share it:
    // bytes() has nothing of it.
    Tensor position_bias;
    float key_scale = 1.0f;  // of a float8 cache
    float value_scale = 1.0f;
    float in_scale = 1.0f;   // on what the projection reads
    float out_scale = 1.0f;  // on what `output` gives

    // y (+)= attention of x [tokens, hidden] over what layer `index` has cached, this step's tokens
    // included; writes their keys and values. `cos_sin` may be null: no rotation.
    void apply(const ForwardContext& batch, int32_t index, const CosSin* cos_sin,
               const ConstTensorView& x, ops::MatmulOutput how, const TensorView& y) const;

    // What lies between the projection and attention: norms, rotation, keys and values to their
    // slots.
    void prepare(const Context& context, const CosSin* cos_sin, const TensorView& projected,
                 const ConstTensorView& slots, const KvLayer& layer) const;

    // What scales the layer's storage, whatever its type.
    ops::KvScales kv_scales(const KvLayer& layer) const {
        return {key_scale, value_scale, layer.key_scales, layer.value_scales};
    }

    size_t bytes() const;

  private:
    // Queries, keys and values out of what the projection gave, and the gates [tokens, heads,
    // head_dim]. REQUIRES for gates: there are some.
    TensorView inputs_of(const Context& context, const TensorView& projected) const;
    TensorView gates_of(const TensorView& projected) const;
    // A norm over the heads of all ranks, of which x has this one's.
    void normalise_heads(const Context& context, const Norm& norm, const TensorView& x) const;
    // The steps that the op of prepare() does not have in their place, and what is left to it.
    TensorView project(const Context& context, const ConstTensorView& x) const;
    void prepare_queries(const Context& context, const CosSin* cos_sin,
                         const TensorView& queries) const;
    ops::AttentionInputOptions prepare_apart(const Context& context, const CosSin* cos_sin,
                                             const TensorView& projected) const;
};

}  // namespace nvllm
