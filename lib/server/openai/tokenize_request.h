// Requests of /tokenize and /detokenize, read from JSON into typed data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "lib/server/openai/generation_request.h"

namespace nvllm::server {

struct TokenizeRequest {
    std::variant<std::string, ChatPrompt> input;
    bool add_special_tokens = true;  // of a text
    bool return_token_strs = false;
};

// {"prompt" | "content": text} or {"messages": [...]}, as vLLM and llama.cpp name it. Faults name
// the field.
Result<TokenizeRequest> read_tokenize_request(nlohmann::ordered_json body,
                                              const RequestLimits& limits);

// {"tokens": [1, 2]}
Result<std::vector<int32_t>> read_detokenize_request(const nlohmann::ordered_json& body);

}  // namespace nvllm::server
