// The alignment check of loads and stores.
#include "kernels/cuda_emulation/memory.h"

#include <string>

#include "kernels/cuda_emulation/scheduler.h"

namespace nvllm::gpu::emulation {

void check_alignment(const void* address, size_t alignment, const char* operation,
                     const Site& where) {
    const size_t beyond = reinterpret_cast<uintptr_t>(address) % alignment;
    if (beyond == 0) return;
    Scheduler::instance().fail_at(where,
                                  std::string(operation) + " of " + std::to_string(alignment) +
                                      " bytes at an address that is " + std::to_string(beyond) +
                                      " bytes past a multiple of " + std::to_string(alignment));
}

}  // namespace nvllm::gpu::emulation
