// Collectives between threads of one process: ranks read each other's memory.
#pragma once

#include "kernels/collectives.h"

namespace nvllm {

// Built in: `name` is "threads", on host memory. Each rank joins and calls on a thread of its own.
const CollectivesTable& thread_collectives();

// Ranks that wait for others in join(), or come later, get an error.
void abandon_thread_group(const GroupId& id);

}  // namespace nvllm
