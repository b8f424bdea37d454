// CPU version of kernels/ops/attention.h; views are checked already.
#pragma once

#include "kernels/ops/attention.h"

namespace nvllm::cpu {

void paged_attention(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_start_loc, const ConstTensorView& seq_lens,
                     const ConstTensorView& block_tables, const ops::PagedAttentionOptions& options,
                     const TensorView& out);

// What queries and probabilities are rounded to before they meet keys and values that are cached in
// this type: bfloat16 where these are and the instruction set multiplies pairs, else float32.
DType attention_factors(DType cached, int64_t head_dim);

size_t paged_attention_scratch_bytes(int64_t sequences, int64_t heads, int64_t head_dim,
                                     int num_threads);

}  // namespace nvllm::cpu
