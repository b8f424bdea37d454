// Offline throughput: how fast a fixed set of requests is done.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "lib/measure/engine_load.h"

namespace nvllm {

struct ThroughputOptions {
    std::vector<Batching> batchings = {Batching::continuous};
    int32_t batch = 1;
    int32_t repeats = 1;
    int32_t num_warmups = 1;  // requests before anything is timed; 0: none
    // Before anything is timed all requests are answered once, for a proposer of drafts that learns
    // from past answers.
    bool learns_answers = false;
    float temperature = 0.0f;
    uint64_t seed = 0;
    // Told how many tokens of all runs are done, of prompts and outputs.
    std::function<void(int64_t num_tokens)> done = {};
};

// All repeats of one way of batching.
struct ThroughputSeries {
    Batching batching = Batching::continuous;
    std::vector<LoadResult> runs;

    // Of each run.
    std::vector<double> elapsed_s() const;
    std::vector<double> cpu_s() const;
    std::vector<double> requests_per_second() const;
    std::vector<double> output_tokens_per_second() const;
    std::vector<double> total_tokens_per_second() const;
    std::vector<double> decode_tokens_per_second() const;
};

// The ways take turns, so that a change of the machine's speed meets all of them. Every repeat has
// its own cache salt: the prefix cache works within a run and never across. When a signal stops it,
// the whole runs are given back, and of a series without one what its first run had done. Throws as
// EngineLoad::run, Interrupted when nothing was measured, and internal when a request failed.
std::vector<ThroughputSeries> measure_throughput(EngineLoad& load, std::span<const WorkItem> items,
                                                 const ThroughputOptions& options);

// "continuous" or "static".
const char* batching_name(Batching batching);

// The keys of vllm bench throughput (elapsed_time, num_requests, total_num_tokens,
// requests_per_second, tokens_per_second), each the median over the repeats of the first series,
// and under "batching" every series with its samples and the share of places filled.
nlohmann::ordered_json throughput_json(std::span<const ThroughputSeries> series);

// vLLM's three lines for the first series, and a table of all.
std::string throughput_table(std::span<const ThroughputSeries> series);

}  // namespace nvllm
