// A GPU's free memory, asked of the driver's management library: no context is made for it.
#pragma once

#include "kernels/backend.h"

namespace nvllm::cuda {

// Fills in total_bytes and free_bytes, less what a context of ours will take. False when the
// library is not there or does not know the device.
bool ask_without_context(int device, DeviceMemoryStats& stats);

}  // namespace nvllm::cuda
