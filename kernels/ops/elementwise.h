// Small element-wise ops that have no better home.
#pragma once

#include <cstdint>

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm::ops {

// y += x. Activations of one type, equal shapes, rows may be strided.
void add(const Context& context, const ConstTensorView& x, const TensorView& y);

// out = x. Activations of one type, equal shapes, rows may be strided. Throws unavailable where a
// module lacks it.
void copy(const Context& context, const ConstTensorView& x, const TensorView& out);

// x = cap * tanh(x / cap) in place (Gemma 2 logits).
void soft_cap(const Context& context, float cap, const TensorView& x);

// x *= factor in place. Activations, rows may be strided.
void scale(const Context& context, float factor, const TensorView& x);

// x[t] *= factors[t] in place. factors: float32 [tokens]; x: activations [tokens, width], rows may
// be strided.
void scale_rows(const Context& context, const ConstTensorView& factors, const TensorView& x);

// out[t] = the largest magnitude in x[t]; of a row with a value that is no number, NaN or infinity.
// x: float32 or activations [tokens, width], rows may be strided; out: float32 [tokens]. Throws
// unavailable where a module lacks it.
void row_maxima(const Context& context, const ConstTensorView& x, const TensorView& out);

// out[i] = x[rows[i]]. x: activations [tokens, hidden]; rows: int32 [count]; out: the same type
// [count, hidden].
void gather_rows(const Context& context, const ConstTensorView& x, const ConstTensorView& rows,
                 const TensorView& out);

// out = x in out's element type, rounded to nearest even. float32, float16 and bfloat16 both ways;
// contiguous, equal counts.
void convert(const Context& context, const ConstTensorView& x, const TensorView& out);

// out[i] = table[b mod the table's size] with b = bits 16 (i mod 4) and up of
// mixed_bits(key + i - i mod 4): the same values on every device. table [count], a power of two of
// at most 65,536; out of the same float type, contiguous. Throws unavailable where a module lacks
// it.
void fill_random(const Context& context, uint64_t key, const ConstTensorView& table,
                 const TensorView& out);
constexpr int64_t kLargestRandomTable = int64_t{1} << 16;

}  // namespace nvllm::ops
