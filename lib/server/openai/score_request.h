// Requests of /v1/score, /v1/rerank and /classify, read from JSON into typed data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/openai/generation_request.h"

namespace nvllm::server {

// Texts to compare: the first is one for all of the second ones, or there is one for each.
struct ScoreRequest {
    std::string model;
    std::vector<std::string> firsts;
    std::vector<std::string> seconds;
    std::string instruction;
    std::string cache_salt;
    int32_t priority = 0;
    std::optional<int32_t> max_second_tokens;
    std::optional<int32_t> truncate_prompt_tokens;  // of both together; -1: as the model takes
    bool uses_activation = true;
    std::vector<std::string> ignored;  // fields that do nothing

    const std::string& first_of(size_t pair) const { return firsts[firsts.size() == 1 ? 0 : pair]; }
};

struct RerankRequest {
    ScoreRequest texts;  // one first text
    size_t top_n = 0;    // at least 1, at most as many as there are second texts
    bool return_documents = true;
};

struct ClassifyRequest {
    std::string model;
    std::vector<RequestInput> inputs;  // without pooling
    bool uses_activation = true;
    std::vector<std::string> ignored;
};

// Faults name the field. vLLM's fields; text_1 and text_2 are also named queries and documents, or
// data_1 and data_2.
Result<ScoreRequest> read_score_request(nlohmann::ordered_json body, const RequestLimits& limits);
// Fields of Jina's, Cohere's and vLLM's interfaces.
Result<RerankRequest> read_rerank_request(nlohmann::ordered_json body, const RequestLimits& limits);
Result<ClassifyRequest> read_classify_request(nlohmann::ordered_json body,
                                              const RequestLimits& limits);

}  // namespace nvllm::server
