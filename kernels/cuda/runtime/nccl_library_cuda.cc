// The library of a CUDA toolkit, or of a Python package.
#include <cstdlib>

#include "kernels/cuda/runtime/nccl_library.h"

namespace nvllm::cuda {

SharedLibrary open_nccl() {
    if (const char* const file = std::getenv("NVLLM_NCCL_LIBRARY")) {
        return open_first_library({file});
    }
    return open_first_library({"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"});
}

}  // namespace nvllm::cuda
