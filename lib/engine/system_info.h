// The hardware that an engine would find, for programs that only report it.
#pragma once

#include <string>
#include <vector>

#include "kernels/host/cpu_placement.h"
#include "lib/engine/device_choice.h"

namespace nvllm {

struct MachineInfo {
    std::string isa;                  // of the CPU kernels that would be used
    std::string isa_fault;            // why none can be chosen (NVLLM_ISA); empty: one can
    std::vector<std::string> usable;  // all that this machine could use
    int num_cores = 0;                // logical ones this process may use, control groups heeded
    CpuResources cpus;
    CpuPlacement placement;  // of an engine's threads when nothing is asked for
};

// A library that a module opens at run time.
struct LibraryInfo {
    std::string name;     // "NCCL"
    std::string version;  // as it says itself; empty: it was not asked
    std::string file;     // that was opened, or is missing
    std::string fault;    // why it cannot be used; empty: it can
};

// The devices other than the CPU. Opens modules and libraries, which a driver may take time for.
struct AcceleratorInfo {
    BackendInfo cuda;
    std::vector<LibraryInfo> libraries;
};

AcceleratorInfo accelerator_info();

MachineInfo machine_info();

}  // namespace nvllm
