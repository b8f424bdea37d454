// Kernels that each run one family of gpu.h's functions over given operands, for the tests of those
// functions.
#pragma once

#include <cstdint>

namespace wrappers {

constexpr int kLanes = 32;

enum class WarpOperation {
    shuffle,
    shuffle_xor,
    shuffle_down,
    shuffle_up,
    ballot,
    any,
    all,
    lane,
    warp
};

// out[thread] = the operation over values[thread], with `argument` (a lane, a lane mask, a
// distance), by two warps.
void warp_operation(WarpOperation operation, const uint32_t* values, uint32_t* out, int argument);

// out[thread]: by odd and even lanes apart, the sum of their halves' values.
void sums_of_halves(const uint32_t* values, uint32_t* out);

// out[0] = the sum, out[1] = the largest of values[0..threads), as every thread agrees they are
// (else NaN).
void block_reductions(const float* values, float* out, int threads);

// d [32 lanes][4] += a [32][4] b [32][2]: registers as the instructions want them.
void mma_bf16(float* d, const uint32_t* a, const uint32_t* b);
void mma_f16(float* d, const uint32_t* a, const uint32_t* b);
void mma_e4m3(float* d, const uint32_t* a, const uint32_t* b);
void mma_i8(int* d, const uint32_t* a, const uint32_t* b);

// d [32 lanes][4] += a [32][4], of which two of each four are kept at places [32], b [32][4], with
// the places of this pair of each four lanes.
void mma_sparse_bf16(int pair, float* d, const uint32_t* a, const uint32_t* b,
                     const uint32_t* places);
void mma_sparse_f16(int pair, float* d, const uint32_t* a, const uint32_t* b,
                    const uint32_t* places);

enum class MatrixLoad { x4, x4_transposed, x2, x2_transposed };
// out [32 lanes][4]: registers loaded from a dense [32, 8] array of 16-bit elements in shared
// memory, lane i naming row i.
void load_matrices(MatrixLoad load, const uint16_t* rows, uint32_t* out);
// rows [32, 8]: what stmatrix_x4 makes of registers [32 lanes][4], lane i naming row i.
void store_matrices(const uint32_t* registers, uint16_t* rows);

// out [threads][4] = in [threads][4], by asynchronous copies of which bytes_read[thread] bytes are
// read.
void copy_asynchronously(const uint32_t* in, const int* bytes_read, uint32_t* out, int threads);
// out[stage][32] = in[stage][32] + 1 through two stages of shared memory.
void copy_in_stages(const uint32_t* in, uint32_t* out, int stages);

// Every kind of load and store once: out[thread] = in[thread], 16, 8 and 4 bytes wide.
void loads_and_stores(const uint32_t* in, uint32_t* out);

// All threads of `blocks` blocks of 64 update the seven counters: add, max, min, or, exchange, cas,
// float add.
void atomic_counters(uint32_t* counters, int blocks);

// out[i] = function `which` of x[i], in the order fast_exp2, fast_exp, fast_log2, fast_log, rsqrt,
// fast_tanh.
void math_function(int which, const float* x, float* out, int count);
// out[0..8): count_ones, count_leading_zeros, count_trailing_zeros, dot_i8x4, permute_bytes, logic3
// of a, b, c; round_to_int of c's bits as a float; a's bits through a float.
void bit_functions(uint32_t a, uint32_t b, uint32_t c, uint32_t* out);
// out[type][i]: x[i] through bfloat16, half, e4m3, and the pairs of pack2 and unpack2 for bfloat16
// and half.
void conversions(const float* x, float* out, int count);

}  // namespace wrappers
