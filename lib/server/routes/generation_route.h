// From the body of a completion or chat to requests in the engine.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "lib/server/requests/response_writer.h"
#include "lib/server/routes/route_context.h"

namespace nvllm::server {

inline constexpr std::string_view kWebSocketDescription =
    "Also takes a WebSocket: each text message is such a body, each event of the answer a "
    "message.";

// A request, and who writes its response.
struct GenerationCall {
    GenerationRequest request;
    MakeWriter make_writer;
};

using ReadGenerationCall =
    std::function<Result<GenerationCall>(nlohmann::ordered_json body, const HostedModel& model)>;

// Reads the body with `read`, admits the request and starts it; a refused one is responded to.
// `prompt_field`: the name of the prompt in the body.
void start_generation(RouteContext& context, const TransactionPointer& transaction,
                      const ReadGenerationCall& read, const char* prompt_field);

}  // namespace nvllm::server
