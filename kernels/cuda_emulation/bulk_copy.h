// Copies of two-dimensional tiles from global to shared memory by one thread (TMA of sm_90).
#pragma once

#include <cstdint>

#include "kernels/cuda_emulation/keywords.h"

// After the keywords, which it uses.
#include "kernels/cuda/primitives/tile.h"
#include "kernels/cuda_emulation/site.h"
#include "kernels/cuda_emulation/transaction_barrier.h"

namespace nvllm::gpu {

// A matrix as the copies want it; a kernel's parameter `const __grid_constant__ TensorMap map`.
struct TensorMap {
    TiledMatrix matrix;
};

// Requires what TiledMatrix says; NVLLM_CHECKs it.
TensorMap make_tensor_map(const TiledMatrix& matrix);

// Starts the copy of the box whose first element is (row, column), which may lie outside the
// matrix, to `shared`, aligned to 128 bytes; box_rows * box_columns * 2 bytes will come to
// `barrier`.
void start_tile_copy(void* shared, const TensorMap& map, int row, int column,
                     TransactionBarrier* barrier, emulation::Site where = emulation::Site::here());

namespace emulation {

void reset_bulk_copies();
// Does one of the copies under way, chosen at random. Whether there was one. Called when no thread
// can run, the latest moment.
bool perform_bulk_copy();
// Throws Fault when copies are under way though the block has ended.
void check_bulk_copies();

}  // namespace emulation

}  // namespace nvllm::gpu
