// What replays of a trace came to, side by side.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/view/trace/trace_replay.h"

namespace nvllm::view {

// One cache size.
struct ReplayTable {
    int32_t num_blocks = 0;
    Optimum optimum;
    std::vector<ReplayResult> runs;
};

struct TraceReport {
    const Trace* trace = nullptr;
    ReplayConfig config;  // what all runs have in common
    uint64_t bytes_per_token = 0;
    std::vector<ReplayTable> tables;
};

std::string trace_text(const TraceReport& report);
// "nvllm-inspect.trace/1".
nlohmann::ordered_json trace_json(const TraceReport& report);
std::string trace_svg(const TraceReport& report);

}  // namespace nvllm::view
