// Request traces: what was asked when, without any text.
//
// JSON lines, of one of two kinds:
//   Mooncake's {"timestamp": ms, "input_length", "output_length", "hash_ids": [...]}, a hash for
//   each piece of 512 tokens of the prompt (R. Qin et al., "Mooncake: A KVCache-centric
//   Disaggregated Architecture for LLM Serving", FAST 2025);
//   ours {"arrival_s", "prompt_tokens": a list of ids, or how many that no other request shares,
//   "max_tokens", "priority": optional}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nvllm::view {

// Tokens of a piece. Equal pieces are equal tokens, and no two pieces have one in common.
inline constexpr int32_t kPieceTokens = 512;

struct TraceRequest {
    double arrival_s = 0.0;
    int32_t num_prompt_tokens = 0;
    int32_t num_answer_tokens = 0;
    int32_t priority = 0;
    std::vector<int32_t> pieces;     // numbered by their first appearance in the trace
    std::vector<int32_t> token_ids;  // instead of pieces
};

struct Trace {
    std::string name;
    bool has_hashes = false;             // Mooncake's
    std::vector<TraceRequest> requests;  // by arrival; of equal ones in the order of the file
};

// Throws not_found, io, or bad_data with file and line.
Trace read_trace(const std::filesystem::path& path);

std::vector<int32_t> prompt_of(const TraceRequest& request);

}  // namespace nvllm::view
