// What lies between the projection of queries, keys and values and attention, as one op.
#pragma once

#include "kernels/context.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/rope.h"
#include "kernels/view.h"

namespace nvllm::ops {

// What happens to queries and keys on the way. Views with data == nullptr: not that step.
struct AttentionInputOptions {
    int64_t heads = 0;
    int64_t kv_heads = 0;
    ConstTensorView
        query_norm;  // weights of rms_norm() over head_dim, of query and key alike in type
    ConstTensorView key_norm;
    RmsNormOptions query_norm_options;
    RmsNormOptions key_norm_options;
    ConstTensorView cosines;  // of rope_cos_sin()
    ConstTensorView sines;
    RopePairs pairs = RopePairs::halves;
    KvScales scales = {};
};

// Norms of queries and keys, their rotation, and the writing of keys and values, with the bits of
// rms_norm(), rope() and write_kv() after each other.
//
// projected: activations [tokens, (heads + 2 kv_heads) * head_dim], rows may be strided: queries,
// keys, values. Afterwards the queries are what attention takes; what is left of keys and values is
// unspecified. slots, key_cache, value_cache: as of write_kv().
void attention_input(const Context& context, const AttentionInputOptions& options,
                     const TensorView& projected, const ConstTensorView& slots,
                     const TensorView& key_cache, const TensorView& value_cache);

}  // namespace nvllm::ops
