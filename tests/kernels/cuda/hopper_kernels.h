// A matrix product in the manner of sm_90: one warp brings tiles, a warpgroup multiplies them; and
// the same with mistakes.
#pragma once

#include <cstdint>

namespace hopper {

enum class Mistake {
    none,
    no_wait_for_tiles,     // the products begin before the tiles have come
    no_wait_for_products,  // a stage is given back while products read it
    stage_not_given_back,  // the producer does not wait for the consumers
    wrong_parity,          // a wait for the phase after the next
    fewer_bytes_expected,  // than come
    barrier_not_initialised,
    accumulators_touched,  // while products are in flight
};

// c [m, n] = a [m, k] b [n, k]^T of bfloat16 (half: the same of half), rows dense; k a multiple
// of 8.
void multiply(Mistake mistake, const uint16_t* a, const uint16_t* b, float* c, int m, int n, int k);
void multiply_halves(const uint16_t* a, const uint16_t* b, float* c, int m, int n, int k);

// out[rows * columns] = the box of `in` [in_rows, in_columns] from (row, column) on, as bytes lie
// in shared memory.
void copy_tile(int swizzle_bytes, const uint16_t* in, int in_rows, int in_columns, int row,
               int column, uint16_t* out, int rows, int columns);

}  // namespace hopper
