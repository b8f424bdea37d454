// Whether all values of a checkpoint are numbers: one that is not would spoil whatever is made of
// it, often without a trace.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/host/thread_pool.h"
#include "lib/checkpoint/checkpoint.h"

namespace nvllm::quantize {

// Reads all floats of one block, or of what lies outside of blocks. Throws bad_data that names
// file, tensor, position and value of the first that is infinite or no number.
void check_finite(const Checkpoint& checkpoint, std::optional<int32_t> block, ThreadPool& threads);

}  // namespace nvllm::quantize
