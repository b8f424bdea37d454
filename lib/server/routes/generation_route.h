// From the body of a completion or chat to requests in the engine.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "lib/server/openai/generation_request.h"
#include "lib/server/routes/route_context.h"

namespace nvllm::server {

inline constexpr std::string_view kWebSocketDescription =
    "Also takes a WebSocket: each text message is such a body, each event of the answer a "
    "message.";

using ReadGenerationRequest = Result<GenerationRequest> (*)(nlohmann::ordered_json body,
                                                            const SamplingParams& defaults,
                                                            const RequestLimits& limits);

// Reads the body with `read`, admits the request and starts it; a refused one is responded to.
// `prompt_field`: the name of the prompt in the body.
void start_generation(RouteContext& context, const TransactionPointer& transaction,
                      ReadGenerationRequest read, const char* prompt_field);

}  // namespace nvllm::server
