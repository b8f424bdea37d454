// Matrix products of a warpgroup, four warps, whose factors lie in shared memory (wgmma of sm_90a).
#pragma once

#include <cstdint>

#include "kernels/cuda_emulation/keywords.h"

// After the keywords, which it uses.
#include "kernels/cuda/primitives/tile.h"
#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu {

// Before the first product of a chain whose accumulators were written by other means.
void warpgroup_fence(emulation::Site where = emulation::Site::here());

// Starts d += a b for a 64x16 matrix a and a 16 x columns matrix b of T (bfloat16 or half), both
// K-major: a's rows and b's columns lie along the rows of tiles that matrix_descriptor() describes.
// All lanes of the four warps call it with the same descriptors; columns is 64 or 128. With g =
// lane / 4, t = lane % 4, w = the warp within its warpgroup, d[i] is row 16 w + g + 8 (i / 2 % 2),
// column 8 (i / 4) + 2 t + i % 2. Until the wait d may not be touched.
template <typename T, int columns>
void warpgroup_multiply(float (&d)[columns / 2], uint64_t a, uint64_t b,
                        emulation::Site where = emulation::Site::here());

// Closes the group of the products started since the last one.
void warpgroup_commit();

namespace emulation {

void wait_for_products(int groups_left, const Site& where);
void reset_warpgroup_products();
// Faults when the running thread, which is about to end, has products that it has not waited for.
void check_products_at_end();

}  // namespace emulation

// Waits until at most `groups_left` of the closed groups are under way.
template <int groups_left>
void warpgroup_wait(emulation::Site where = emulation::Site::here()) {
    emulation::wait_for_products(groups_left, where);
}

// The address that matrix_descriptor() wants.
uint32_t shared_address(const void* address, emulation::Site where = emulation::Site::here());

}  // namespace nvllm::gpu
