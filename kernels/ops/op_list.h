// The list of all ops. Tables, declarations and bindings are made from it; contracts are in the
// headers of this folder.
//
// A row is the name of a function in nvllm::ops. NVLLM_DEVICE_OPS(X) calls X(name) for each op of a
// backend module, NVLLM_CPU_OPS(X) for each op of the CPU.
#pragma once

#include "kernels/ops/activation.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/attention_input.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/ops/linalg.h"
#include "kernels/ops/linear_attention.h"
#include "kernels/ops/lora.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/matmul_quantized.h"
#include "kernels/ops/moe.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/sampling.h"

// Ops of the CPU and of every module.
#define NVLLM_REQUIRED_OPS(X) \
    X(activation)             \
    X(gated_activation)       \
    X(clamped_swiglu)         \
    X(attention_input)        \
    X(paged_attention)        \
    X(add)                    \
    X(soft_cap)               \
    X(scale)                  \
    X(scale_rows)             \
    X(gather_rows)            \
    X(convert)                \
    X(embedding)              \
    X(write_kv)               \
    X(copy_blocks)            \
    X(add_weighted_rows)      \
    X(rms_norm)               \
    X(layer_norm)             \
    X(rope_cos_sin)           \
    X(rope)                   \
    X(position_factors)

// Ops of the CPU that a module may leave out. Each group is complete or missing.
#define NVLLM_OPTIONAL_OPS(X)                                                  \
    /* Without them the host samples tokens. */                                \
    X(change_scores)                                                           \
    X(sample)                                                                  \
    X(logprobs)                                                                \
    /* Without them the host chooses experts. */                               \
    X(route)                                                                   \
    X(sort_by_expert)                                                          \
    X(grouped_matmul)                                                          \
    X(add_expert_outputs)                                                      \
    /* Without them a model of layers with states is refused. */               \
    X(copy)                                                                    \
    X(causal_conv1d)                                                           \
    X(l2_norm)                                                                 \
    X(state_gates)                                                             \
    X(linear_attention)                                                        \
    /* Without them adapters are refused. */                                   \
    X(lora_shrink)                                                             \
    X(lora_expand)                                                             \
    X(lora_expert_slots)                                                       \
    X(lora_select)                                                             \
    /* Without it ranks do not share rows that are rounded by their values. */ \
    X(row_maxima)                                                              \
    /* Without it the host makes random weights and copies them. */            \
    X(fill_random)                                                             \
    /* Without them quantized weights are dequantized when they are loaded. */ \
    X(can_multiply_quantized)                                                  \
    X(quantized_weight_bytes)                                                  \
    X(pack_weight)                                                             \
    X(matmul_quantized)

// A module multiplies by one matrix at a time; the CPU by all matrices of the same x.
#define NVLLM_REQUIRED_DEVICE_OPS(X) \
    NVLLM_REQUIRED_OPS(X)            \
    X(matmul)

#define NVLLM_DEVICE_OPS(X)      \
    NVLLM_REQUIRED_DEVICE_OPS(X) \
    NVLLM_OPTIONAL_OPS(X)

#define NVLLM_CPU_OPS(X)  \
    NVLLM_REQUIRED_OPS(X) \
    NVLLM_OPTIONAL_OPS(X) \
    X(fused_matmul)       \
    X(move_slots)         \
    X(add_gram)           \
    X(mirror_lower)       \
    X(cholesky)           \
    X(invert_lower)       \
    X(inverse_cholesky)
