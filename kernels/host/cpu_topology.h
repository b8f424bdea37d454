// Which logical processors share a core, and which memory lies near them: what the system says
// below /sys/devices/system.
//
// Only processors that are online count. What the system does not say, or says in a way that cannot
// be, is taken for the simplest machine: each processor a core of its own, all memory equally near.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "kernels/host/cpu_list.h"

namespace nvllm {

// Memory with the processors that are near it.
struct NumaNode {
    int id = 0;
    CpuList cpus;

    bool operator==(const NumaNode&) const = default;
};

struct CpuTopology {
    CpuList cpus;                // all that are online
    std::vector<CpuList> cores;  // processors of each physical core, in the order of their first
    // Those with processors, at least one unless `cpus` is empty; each processor is in one.
    std::vector<NumaNode> nodes;

    // Hyper-threads of the core that has most; at least 1.
    int threads_per_core() const;
    // The processors of `wanted` in the order in which threads should take them: one of each core
    // before the second of any.
    std::vector<int> cores_first(const CpuList& wanted) const;
    // Physical cores with a processor in `cpus`; a processor that is in none counts as one.
    int num_cores_of(const CpuList& cpus) const;
};

CpuTopology read_cpu_topology(const std::filesystem::path& root = "/sys/devices/system");

}  // namespace nvllm
