// A request of /v1/embeddings, read from JSON into typed data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/server/openai/generation_request.h"

namespace nvllm::server {

struct EmbeddingRequest {
    std::string model;
    std::vector<RequestInput> inputs;
    bool as_base64 = false;            // of little-endian float32
    std::vector<std::string> ignored;  // fields that do nothing
};

// Fields of the OpenAI API, plus `pooling` (last, mean, cls), `normalize` and `prompt_name`;
// `defaults` hold if the first two are absent. Faults name the field.
Result<EmbeddingRequest> read_embedding_request(nlohmann::ordered_json body,
                                                const PoolingParams& defaults,
                                                const RequestLimits& limits);

}  // namespace nvllm::server
