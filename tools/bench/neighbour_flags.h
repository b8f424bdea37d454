// What the flags of vllm bench, llama-bench and the engines below them mean to nvllm-bench.
#pragma once

#include "lib/cli/options.h"

namespace nvllm::bench {

void add_neighbour_flags(OptionSet& options);

}  // namespace nvllm::bench
