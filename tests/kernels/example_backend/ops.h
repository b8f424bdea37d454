// The example's ops; contracts are in kernels/ops/*.h.
#pragma once

#include "kernels/backend.h"

namespace example {

using nvllm::ConstTensorView;
using nvllm::Context;
using nvllm::TensorView;

void activation(const Context&, nvllm::ops::Activation, const ConstTensorView& x,
                const TensorView& out);
void gated_activation(const Context&, nvllm::ops::Activation, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out);
void add(const Context&, const ConstTensorView& x, const TensorView& y);
void soft_cap(const Context&, float cap, const TensorView& x);
void gather_rows(const Context&, const ConstTensorView& x, const ConstTensorView& rows,
                 const TensorView& out);
void convert(const Context&, const ConstTensorView& x, const TensorView& out);
void embedding(const Context&, const ConstTensorView& table, const ConstTensorView& ids,
               float scale, const TensorView& out);
void add_weighted_rows(const Context&, const ConstTensorView& x, const ConstTensorView& rows,
                       const ConstTensorView& weights, const TensorView& y);
void rms_norm(const Context&, const ConstTensorView& x, const ConstTensorView& weight,
              const nvllm::ops::RmsNormOptions&, const TensorView& out);
void add_rms_norm(const Context&, const ConstTensorView& x, const TensorView& residual,
                  const ConstTensorView& weight, const nvllm::ops::RmsNormOptions&,
                  const TensorView& out);
void layer_norm(const Context&, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, float epsilon, const TensorView& out);
void rope_cos_sin(const Context&, const ConstTensorView& positions,
                  const ConstTensorView& inverse_frequencies, float attention_scaling,
                  const TensorView& cosines, const TensorView& sines,
                  const ConstTensorView& choices);
void rope(const Context&, const ConstTensorView& cosines, const ConstTensorView& sines,
          const TensorView& x);

void attention_input(const Context&, const nvllm::ops::AttentionInputOptions&,
                     const TensorView& projected, const ConstTensorView& slots,
                     const TensorView& key_cache, const TensorView& value_cache);
void matmul(const Context&, const ConstTensorView& x, const ConstTensorView& weight,
            const ConstTensorView& bias, nvllm::DType compute_type, nvllm::ops::MatmulOutput,
            const TensorView& y);
void write_kv(const Context&, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache, const nvllm::ops::KvScales&);
void copy_blocks(const Context&, const ConstTensorView& pairs, const ConstTensorView& source,
                 const TensorView& target);
void paged_attention(const Context&, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_start_loc, const ConstTensorView& seq_lens,
                     const ConstTensorView& block_tables, const nvllm::ops::PagedAttentionOptions&,
                     const TensorView& out);
size_t paged_attention_scratch_bytes(int64_t sequences, int64_t heads, int64_t head_dim,
                                     int num_threads);
size_t matmul_scratch_bytes(int64_t tokens, int64_t in, int num_threads);

}  // namespace example
