// Tensor-core instructions of a warp: matrix products, and loads and stores of 8x8 matrices of
// 16-bit elements.
#pragma once

#include <cstdint>

#include "kernels/cuda_emulation/keywords.h"
#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu {

// d += a b for a 16x16 matrix a, a 16x8 matrix b, both of T (bfloat16 or half), and float d. All
// lanes of the warp call it. With g = lane / 4, t = lane % 4, two elements in a register, the first
// in its low half:
//   a[0]: row g, columns 2t, 2t+1; a[1]: row g+8; a[2]: row g, columns 2t+8, 2t+9; a[3]: row g+8,
//   these columns b[0]: rows 2t, 2t+1 of column g; b[1]: rows 2t+8, 2t+9 d[0], d[1]: row g, columns
//   2t, 2t+1; d[2], d[3]: row g+8
template <typename T>
void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                  emulation::Site where = emulation::Site::here());

// The same with 32 columns of a, bytes, four to a register: columns 4t..4t+3 and 4t+16..4t+19.
template <typename T>  // __nv_fp8_e4m3
void mma_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                  emulation::Site where = emulation::Site::here());
template <typename T>  // int8_t
void mma_m16n8k32(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                  emulation::Site where = emulation::Site::here());

// d += a b for a 16x32 matrix a of which each row keeps two of each four neighbours, a 32x8 matrix
// b, both of T (bfloat16 or half), and float d; g and t as above:
//   a[0]: what row g keeps of columns 4t..4t+3; a[1]: row g+8; a[2]: row g, columns 4t+16..4t+19;
//   a[3]: row g+8, these columns. b[r]: rows 2t+8r, 2t+8r+1 of column g. d as above.
//   places: of lanes t = 2 pair and 2 pair + 1 alone, which have columns 0..15 and 16..31 of row g
//   in the low half and of row g+8 in the high half: for each four columns two bits with the place
//   of the first that is kept, then two with that of the second, which lies behind it.
// (PTX ISA, mma.sp::ordered_metadata.) A failure of the launch: places that are not in order.
template <typename T, int pair>
void mma_sparse_m16n8k32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                         uint32_t places, emulation::Site where = emulation::Site::here());

// Loads four (two) 8x8 matrices of 16-bit elements from shared memory. Lanes 8i..8i+7 give the
// addresses of the rows of matrix i, each of 16 bytes and so aligned; r[i] gets elements 2(lane %
// 4) and the next of row lane / 4 of matrix i; the transposed forms get the elements of the
// transposed matrix. In the x2 forms the addresses of lanes 16..31 count for nothing.
void ldmatrix_x4(uint32_t (&r)[4], const void* row,
                 emulation::Site where = emulation::Site::here());
void ldmatrix_x4_transposed(uint32_t (&r)[4], const void* row,
                            emulation::Site where = emulation::Site::here());
void ldmatrix_x2(uint32_t (&r)[2], const void* row,
                 emulation::Site where = emulation::Site::here());
void ldmatrix_x2_transposed(uint32_t (&r)[2], const void* row,
                            emulation::Site where = emulation::Site::here());

// The inverse of ldmatrix_x4. sm_90 and later.
void stmatrix_x4(void* row, const uint32_t (&r)[4],
                 emulation::Site where = emulation::Site::here());

}  // namespace nvllm::gpu
