// Operations that the lanes of a warp do together: each arrives with a payload, the last one does
// the work for all.
#pragma once

#include <cstdint>

#include "kernels/cuda_emulation/site.h"
#include "kernels/cuda_emulation/thread.h"

namespace nvllm::gpu::emulation {

// The payloads of the lanes that have met. They lie on the lanes' stacks and are read and written
// in place.
struct Meeting {
    uint32_t mask = 0;
    void* payloads[kWarpSize] = {};
    Site where;

    bool has(int lane) const { return (mask >> lane & 1u) != 0; }
    template <typename Payload>
    Payload& of(int lane) const {
        return *static_cast<Payload*>(payloads[lane]);
    }
};

using Combine = void (*)(Meeting& meeting);

// The running lane meets all lanes of `mask` in `operation`; the last to arrive runs `combine`,
// then all go on. Faults: a lane that is not in its own mask, lanes of the mask that do not exist
// or have ended, lanes that meet under the same mask in different operations or at different
// places.
void meet(uint32_t mask, const char* operation, void* payload, Combine combine, const Site& where);

// Forgets who waits: a new block begins.
void reset_collectives();

}  // namespace nvllm::gpu::emulation
