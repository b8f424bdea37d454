// POST /v1/chat/completions: continues a conversation.
#include "lib/server/openai/response_content.h"
#include "lib/server/requests/completion_writer.h"
#include "lib/server/routes/generation_route.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

Result<GenerationCall> read_chat(nlohmann::ordered_json body, const HostedModel& model) {
    auto request =
        read_chat_request(std::move(body), model.default_sampling(), model.request_limits());
    if (!request) return request.fault();
    if (auto fault = set_output(model.output(), *request)) return *fault;
    return GenerationCall{*std::move(request), CompletionWriter::make};
}

void start_chat(RouteContext& context, const TransactionPointer& transaction) {
    start_generation(context, transaction, read_chat, "messages");
}

}  // namespace

constinit const Route routes::chat_completions = {
    .method = "POST",
    .path = "/v1/chat/completions",
    .access = RouteAccess::user,
    .summary = "Answers a conversation.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema =
        {.response =
             whole_or_stream_content<responses::ChatCompletion, responses::ChatCompletionChunk>,
         .body = RequestBodySchema{CallKind::chat, "ChatCompletionRequest"},
         .description = kWebSocketDescription},
    .handle = start_chat};

}  // namespace nvllm::server
