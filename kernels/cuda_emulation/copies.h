// The asynchronous copies under way in a block, as launches see them.
#pragma once

namespace nvllm::gpu::emulation {

// Forgets all copies: a new block begins.
void reset_copies();
// Faults when the running thread, which is about to end, has copies that it has not waited for.
void check_copies_at_end();

}  // namespace nvllm::gpu::emulation
