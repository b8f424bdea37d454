// What every table of collectives must do, checked by each rank of a group: for threads and for
// processes.
#pragma once

#include <string>

#include "kernels/collectives.h"

namespace nvllm::test {

// Calls all operations with many types and sizes; the first thing that is wrong, or empty. Host
// memory. REQUIRES: all ranks call it.
std::string find_wrong_operation(const RankGroup& group);

}  // namespace nvllm::test
