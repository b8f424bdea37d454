// Timed traces of requests in Mooncake's format, as work to replay.
//
// A line is {"timestamp": milliseconds, "input_length": tokens, "output_length": tokens,
// "hash_ids": [block ids]}: requests whose lists begin alike had prompts that began alike, 512
// tokens a block (Qin et al. 2025, "Mooncake: Trading More Storage for Less Computation", FAST 25;
// github.com/kvcache-ai/Mooncake, FAST25-release/traces).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "lib/measure/workload.h"

namespace nvllm {

struct TraceOptions {
    int32_t block_tokens = 512;  // prompt tokens that a hash id stands for
    double time_scale = 1.0;     // factor on the times between requests: 0.5 is twice as fast
    double length_scale = 1.0;   // factor on lengths, to fit a small model: at least one token
    std::optional<int32_t> max_requests = {};      // from the beginning
    std::optional<int32_t> max_input_tokens = {};  // longer prompts are cut
    uint64_t seed = 0;
};

// Requests in the order of their times, the first at 0. The tokens of a block follow from its hash
// id and the seed alone, so equal beginnings are equal tokens; prompts without hash ids are drawn
// by themselves. Throws not_found, io, and bad_data with file and line: a missing or negative
// field, more ids than the prompt has blocks, or a trace without requests.
std::vector<WorkItem> read_trace(const std::filesystem::path& file, const TraceOptions& options,
                                 int64_t vocab_size);

// The share of prompt tokens that an endless cache of whole blocks would find, in order of arrival:
// what a prefix cache can reach at best on this trace.
double reusable_share(std::span<const WorkItem> items, int32_t block_tokens);

}  // namespace nvllm
