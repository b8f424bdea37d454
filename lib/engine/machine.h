// What an engine would find of this machine, for programs that only look.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu_placement.h"

namespace nvllm {

struct MachineFacts {
    std::string isa;                  // of the CPU kernels that would be used
    std::string isa_fault;            // why none can be chosen (NVLLM_ISA); empty: one can
    std::vector<std::string> usable;  // all that this machine could use
    int num_cores = 0;                // logical ones this process may use, control groups heeded
    CpuResources cpus;
    CpuPlacement placement;         // of an engine's threads when nothing is asked for
    bool has_cuda_backend = false;  // in this build
};

MachineFacts machine_facts();

}  // namespace nvllm
