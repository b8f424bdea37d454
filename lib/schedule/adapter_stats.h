// What is told of adapters, and how many there may be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/request/adapter.h"

namespace nvllm {

struct AdapterTierLimits {
    int32_t max_loras = 0;      // slots: adapters that steps may use; 0: there are none
    int32_t max_cpu_loras = 0;  // in host memory, those in slots included; at least max_loras
};

// Where adapters were when requests for them came: in a slot, in host memory (or on the way), on
// disk.
struct AdapterArrivals {
    int64_t hot = 0;
    int64_t warm = 0;
    int64_t cold = 0;
};

// Counts since the start; num_x are of now.
struct AdapterStats {
    int32_t num_hot = 0;
    int32_t num_warm = 0;  // loading and placing ones included
    AdapterArrivals arrivals;
    int64_t loads = 0;  // from disk
    uint64_t loaded_bytes = 0;
    double load_ms = 0.0;
    int64_t places = 0;  // into a slot
    uint64_t placed_bytes = 0;
    double place_ms = 0.0;
    int64_t evictions = 0;  // out of a slot
    int64_t failures = 0;
    // Names of adapters that requests have, which run now or wait.
    std::vector<std::string> running;
    std::vector<std::string> waiting;
};

// Of one adapter.
struct AdapterState {
    std::string name;
    std::string folder;
    AdapterTier tier = AdapterTier::cold;
    int32_t slot = 0;          // 0: none
    int32_t num_requests = 0;  // that have not ended
    int32_t num_running = 0;   // sequences, in the last plan
    uint64_t bytes = 0;        // 0: not loaded yet
};

}  // namespace nvllm
