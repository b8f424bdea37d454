// Where NCCL's functions come from: the system's library, or the emulation's.
#pragma once

#include "kernels/shared_library.h"

namespace nvllm::cuda {

// The file that NVLLM_NCCL_LIBRARY names, else the first that is there.
SharedLibrary open_nccl();

}  // namespace nvllm::cuda
