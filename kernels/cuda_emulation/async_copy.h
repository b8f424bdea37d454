// Asynchronous copies of 16 bytes from global to shared memory.
#pragma once

#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu {

// Starts a copy of `bytes_read` bytes, 0 to 16; the rest of the 16 is filled with zeros. Both
// addresses are multiples of 16.
void cp_async16(void* shared, const void* global, int bytes_read = 16,
                emulation::Site where = emulation::Site::here());
// Closes the group of the copies that this thread has started since the last one.
void cp_async_commit();

namespace emulation {
void wait_for_copies(int groups_left, const Site& where);
}

// Waits until at most `groups_left` of this thread's closed groups are under way. What other
// threads have copied is seen after a barrier.
template <int groups_left>
void cp_async_wait(emulation::Site where = emulation::Site::here()) {
    emulation::wait_for_copies(groups_left, where);
}

}  // namespace nvllm::gpu
