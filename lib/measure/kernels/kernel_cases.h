// The ops of a decoder layer at the shapes of decode and prefill, ready to be timed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/context.h"
#include "kernels/types.h"

namespace nvllm {

// Sizes of a layer and of the two kinds of step. Defaults are those of Llama-3.2-1B.
struct KernelShapes {
    int64_t hidden = 2048, intermediate = 8192;
    int64_t heads = 32, kv_heads = 8, head_dim = 64;
    int64_t prefill_tokens = 512;
    int64_t decode_sequences = 8, context = 1024;  // of attention in decode
    DType dtype = DType::bf16;                     // of weights, products and cache
    // Operands are taken in turn from copies that together have about so many bytes, so that they
    // come from memory and not from a cache.
    uint64_t working_set_bytes = uint64_t{512} << 20;
    uint64_t seed = 0;
};

// One op at one shape. Bytes and operations are those that the definition needs, each operand
// touched once: what a better algorithm could not do without.
struct KernelCase {
    std::string name;   // "matmul decode gate_up"
    std::string shape;  // "1 x 2048 x 16384 bfloat16"
    double bytes = 0.0;
    double flops = 0.0;
    std::function<void(size_t call)> run;  // which copy it takes follows from the call's number
    bool integers = false;                 // operations are of int8 codes
};

// Makes its case, with the operands, when it is called: they need not all fit at once.
struct KernelCaseMaker {
    std::string name;
    std::function<KernelCase(const std::string& name)> make;
};

// matmul (qkv, gate_up, down) for one token, for a batch of decode and for prefill, the same with
// quantized weights (gate_up) where the device multiplies them, adapters of rank 16 on gate_up, one
// for each row of the batch, where it has the ops, rms_norm, rope, gated activation,
// and attention for decode and for prefill, on the context's device. `context` must outlive the
// cases.
std::vector<KernelCaseMaker> kernel_cases(const Context& context, const KernelShapes& shapes);

// A product of x [tokens, in] and one matrix [out, in].
KernelCase plain_product(const Context& context, const KernelShapes& shapes, int64_t tokens,
                         int64_t in, int64_t out);

}  // namespace nvllm
