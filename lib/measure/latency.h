// Latency of one batch: all requests handed over at once, timed until the last has finished.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "lib/measure/engine_load.h"

namespace nvllm {

struct LatencyOptions {
    int32_t batch_size = 8;
    int32_t num_warmups = 10;
    int32_t iterations = 30;
    uint64_t seed = 0;
    std::function<void(size_t num_batches)> done = {};  // told of each, warm-ups too
};

// Seconds of each iteration. The prompts of every iteration are the same and none is found in the
// prefix cache. When a signal stops it, the iterations until then. Throws as EngineLoad::run,
// Interrupted when there is none, and internal when a request failed.
std::vector<double> measure_latency(EngineLoad& load, std::span<const WorkItem> items,
                                    const LatencyOptions& options);

// The keys of vllm bench latency: avg_latency, std_latency, latencies, percentiles (seconds).
nlohmann::ordered_json latency_json(std::span<const double> latencies_s);

// vLLM's lines: the mean, and the percentiles 10, 25, 50, 75, 90, 99, in seconds.
std::string latency_table(std::span<const double> latencies_s);

}  // namespace nvllm
