// What a client asks of /v1/messages (the Anthropic API), as a request that generates.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lib/server/openai/generation_request.h"

namespace nvllm::server::anthropic {

// Faults name the field as it is called there: "messages[1].content[0].type".
Result<GenerationRequest> read_message_request(nlohmann::ordered_json body,
                                               const SamplingParams& defaults,
                                               const RequestLimits& limits);

// Of such a body what the prompt is: for /v1/messages/count_tokens, where max_tokens may be absent.
// `ignored`: names of fields that do nothing.
Result<ChatPrompt> read_message_prompt(nlohmann::ordered_json body, const RequestLimits& limits,
                                       std::vector<std::string>& ignored);

}  // namespace nvllm::server::anthropic
