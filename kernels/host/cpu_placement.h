// Where the threads of a pool run and where the memory they touch first comes from: a plan made
// from what the machine is and what was asked for, and a thin way to carry it out.
//
// Threads of a process with an engine on the CPU:
//   - the pool's, --threads of them. The first is the engine thread itself (in a worker process its
//     only other thread): it schedules, computes, and samples together with the rest. They spin for
//     less than a millisecond where one waits for another inside a step, and sleep otherwise.
//   - those that never spin and sleep nearly always: a server's one for I/O, --text-threads for
//     templates and tokenizing, signals, watchdog, inspection.
// Only the pool's are bound. The others run for microseconds at a time on whichever processor the
// system finds idle, outside a --cpu-mask as well: held to the mask they would take the place of a
// thread that all others wait for.
//
// Memory that the pool's threads touch first follows the plan: keys, values, scratch, weights that
// were converted at load. Weights used in place lie in the page cache, wherever the thread that
// read the file first (of this process or of one before) was told to put them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/host/cpu_list.h"
#include "kernels/host/cpu_topology.h"

namespace nvllm {

enum class NumaMode : uint8_t {
    automatic,   // distribute where the processors that may be used lie in several nodes
    off,         // threads and memory wherever the system puts them
    distribute,  // threads evenly over the nodes, memory interleaved over them
    isolate,     // threads and memory in the node in which the process started
};

enum class MemoryPolicy : uint8_t {
    standard,     // the system's: near the thread that touches it first
    interleaved,  // page by page over the nodes
    preferred,    // in the one node as long as it has room
};

// What there is.
struct CpuResources {
    CpuTopology topology;
    CpuList allowed;              // to this process, not empty
    std::optional<double> quota;  // of processors' time
    int current_cpu = 0;          // on which the process runs
};
CpuResources read_cpu_resources();

// What was asked for.
struct PlacementOptions {
    int num_threads = 0;  // 0: one for each physical core, or processor of the mask
    CpuList mask;         // empty: all that are allowed
    NumaMode numa = NumaMode::automatic;
};

struct CpuPlacement {
    // For each thread the processors it may run on; empty: wherever the process may.
    std::vector<CpuList> threads;
    MemoryPolicy memory = MemoryPolicy::standard;
    std::vector<int> memory_nodes;  // of the policy; empty for the standard one
    NumaMode numa = NumaMode::off;  // what automatic came to
    std::string reason;             // why so many threads

    int num_threads() const { return static_cast<int>(threads.size()); }
    // Processors on which the threads may run altogether; empty: wherever the process may.
    CpuList cpus() const;
    bool operator==(const CpuPlacement&) const = default;
};

// Of a pool on this machine unless another number is requested.
int default_num_threads();

// So many threads wherever the system puts them.
CpuPlacement free_placement(int num_threads);

// REQUIRES: the mask holds only processors that are allowed.
CpuPlacement plan_placement(const CpuResources& resources, const PlacementOptions& options);

// Carries the plan out for the calling thread, which is the pool's `thread`. What the system
// refused and why, in words; empty: nothing. A thread that could not be bound runs on.
std::string bind_this_thread(const CpuPlacement& placement, int thread);

}  // namespace nvllm
