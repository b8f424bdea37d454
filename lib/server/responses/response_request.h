// What a client asks of /v1/responses, as a request that generates, and what the response repeats
// of it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lib/server/openai/generation_request.h"

namespace nvllm::server {

struct ResponseSettings {
    std::string instructions = {};  // JSON; "null": none
    std::string metadata = "{}";
    std::string reasoning = {};  // JSON, as in the request
    std::string text = {};       // the same
    std::string tools = "[]";
    std::string tool_choice = "\"auto\"";
    bool parallel_tool_calls = true;
    std::optional<int64_t> max_output_tokens = {};
    std::string previous_id = {};  // empty: none
    bool is_stored = true;
    std::string messages = {};  // JSON: the conversation without instructions
};

struct ResponseRequest {
    GenerationRequest generation;
    ResponseSettings settings;
};

// `earlier`: the messages of the response that previous_response_id names; null without one. Faults
// name the field: "input[2].content[0].type".
Result<ResponseRequest> read_response_request(nlohmann::ordered_json body,
                                              nlohmann::ordered_json earlier,
                                              const SamplingParams& defaults,
                                              const RequestLimits& limits);

}  // namespace nvllm::server
