// POST /v1/completions: continues texts.
#include "lib/server/openai/response_content.h"
#include "lib/server/requests/completion_writer.h"
#include "lib/server/routes/generation_route.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

Result<GenerationCall> read_completion(nlohmann::ordered_json body, const HostedModel& model) {
    auto request =
        read_completion_request(std::move(body), model.default_sampling(), model.request_limits());
    if (!request) return request.fault();
    return GenerationCall{*std::move(request), CompletionWriter::make};
}

void start_completion(RouteContext& context, const TransactionPointer& transaction) {
    start_generation(context, transaction, read_completion, "prompt");
}

}  // namespace

constinit const Route routes::completions = {
    .method = "POST",
    .path = "/v1/completions",
    .access = RouteAccess::user,
    .summary = "Continues a text.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response =
                   whole_or_stream_content<responses::Completion, responses::CompletionChunk>,
               .body = RequestBodySchema{CallKind::completion, "CompletionRequest"},
               .description = kWebSocketDescription},
    .handle = start_completion};

}  // namespace nvllm::server
