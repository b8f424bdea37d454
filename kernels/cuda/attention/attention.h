// CUDA version of kernels/ops/attention.h; views are checked already.
#pragma once

#include "kernels/ops/attention.h"

namespace nvllm::cuda {

constexpr int kMaxHeadDim = 256;  // of paged_attention

void paged_attention(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_start_loc, const ConstTensorView& seq_lens,
                     const ConstTensorView& block_tables, const ops::PagedAttentionOptions& options,
                     const TensorView& out);

size_t paged_attention_scratch_bytes(int64_t sequences, int64_t heads, int64_t head_dim,
                                     int num_threads);

}  // namespace nvllm::cuda
