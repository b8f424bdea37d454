// Which chart is made of which result.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/plot/chart.h"

namespace nvllm {

// A result with the name it has in legends and messages (its file's, without the folder).
struct NamedResult {
    std::string name;
    std::shared_ptr<const nlohmann::ordered_json> object;
};

// A file of one JSON object, or a list of them, or JSONL: each object is a result. Throws
// not_found, io, bad_data with file and line.
std::vector<NamedResult> read_results(const std::filesystem::path& file);

// Throughput (tok/s) against latency (ms): a point for each result, those of one name joined in the
// order they come in, which for a sweep is that of rising load. Keys: output_throughput and
// mean_e2el_ms, else median_ttft_ms (serve, trace); else avg_latency with batch_size and output_len
// (latency). Throws bad_data when a result has neither.
Chart latency_chart(const std::vector<NamedResult>& results);

// A bar for each request from sending to its end, the wait for the first token in another colour.
// Keys: start_times, ttfts, latencies (seconds), as --save-detailed writes them; throws bad_data
// when they are missing or of different lengths.
Chart timeline_chart(const NamedResult& result);

// Kernels between arithmetic intensity and operations a second, below the roofs that were probed in
// the same run (Williams, Waterman & Patterson 2009): one for each type of product among them. A
// series is a kind of op: the first word of its name. Keys: roof and ops of nvllm-bench kernels;
// throws bad_data without them.
Chart roofline_chart(const NamedResult& result);

}  // namespace nvllm
