// Loads with adapters: which one each request has, and what became of them by where it was.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/measure/engine_load.h"
#include "lib/measure/workload.h"

namespace nvllm {

struct AdapterChoice {
    std::string rule = "zipf";  // the i-th as often as 1 / i^skew; random; round-robin
    double skew = 1.0;
    double share_without = 0.0;  // of requests that have none
};

// Gives each item one of the adapters; the same seed gives the same ones. None where there are
// none.
void choose_adapters(const AdapterChoice& choice, std::span<const std::string> adapters,
                     uint64_t seed, std::span<WorkItem> items);

// Requests of all runs by where their adapter was when they were sent.
struct AdapterLoad {
    // Times to the first token, in milliseconds. Of cold ones also those that were being loaded.
    std::vector<double> hot_ms;
    std::vector<double> warm_ms;
    std::vector<double> cold_ms;
    std::vector<double> without_ms;
    AdapterStats stats;  // of the engine since its start
};
AdapterLoad adapter_load(std::span<const LoadResult> runs, const AdapterStats& stats);

nlohmann::ordered_json adapters_json(const AdapterLoad& load);
std::string adapters_table(const AdapterLoad& load);

}  // namespace nvllm
