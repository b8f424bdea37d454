// POST /v1/messages and /v1/messages/count_tokens: the Anthropic API.
#include "lib/server/anthropic/message_request.h"
#include "lib/server/anthropic/message_writer.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/conversations/token_count.h"
#include "lib/server/routes/generation_route.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

using anthropic::MessageEvent;
using anthropic::MessageWriter;

Result<GenerationCall> read_messages_call(nlohmann::ordered_json body, const HostedModel& model) {
    auto request = anthropic::read_message_request(std::move(body), model.default_sampling(),
                                                   model.request_limits());
    if (!request) return request.fault();
    if (auto fault = set_output(model.output(), *request)) return *fault;
    return GenerationCall{*std::move(request), MessageWriter::make};
}

// The official client reads the id from a header of its own.
void name_response(const TransactionPointer& transaction) {
    transaction->response_headers.push_back({"request-id", transaction->request_id});
}

void start_message(RouteContext& context, const TransactionPointer& transaction) {
    name_response(transaction);
    start_generation(context, transaction, read_messages_call, "messages");
}

HttpResponse count_response(const RouteContext& context, const HttpRequest& http) {
    auto body = read_body(http, context.config);
    if (!body) return fault_response(body.fault());
    if (!body->is_object()) return error_response({.message = "the request must be a JSON object"});
    const std::string name = model_name_in(*body);
    ApiError error;
    const auto model = find_ready_with_tokenizer(context.models, name, error);
    if (model == nullptr) return error_response(error);
    std::vector<std::string> ignored;
    const auto prompt =
        anthropic::read_message_prompt(std::move(*body), model->request_limits(), ignored);
    if (!prompt) return fault_response(prompt.fault());
    const auto count = count_tokens(*model, *prompt);
    if (!count) return fault_response(count.fault());
    HttpResponse response = typed_response(anthropic::TokenCount{*count});
    if (!ignored.empty()) response.headers.push_back(ignored_header(ignored));
    return response;
}

void start_count(RouteContext& context, const TransactionPointer& transaction) {
    name_response(transaction);
    transaction->respond(count_response(context, transaction->request()));
}

nlohmann::ordered_json message_content() {
    schema::Json content = json_content<anthropic::Message>();
    content.update(media_content("text/event-stream", schema::reference(MessageEvent::kName)));
    return content;
}

nlohmann::ordered_json message_types() {
    schema::Json types =
        named_schemas<anthropic::Message, anthropic::MessageUsage, anthropic::TokenCount>();
    types[MessageEvent::kName] = JsonOf<MessageEvent::Any>::schema();
    return types;
}

}  // namespace

constinit const Route routes::messages = {
    .method = "POST",
    .path = "/v1/messages",
    .access = RouteAccess::user,
    .summary = "Answers a conversation, in the form of the Anthropic API.",
    .is_off_loop = true,
    .has_json_body = true,
    .errors = ErrorForm::anthropic,
    .schema = {.response = message_content,
               .body = RequestBodySchema{CallKind::message, "MessageRequest"},
               .description = kWebSocketDescription,
               .types = message_types},
    .handle = start_message};

constinit const Route routes::count_tokens = {
    .method = "POST",
    .path = "/v1/messages/count_tokens",
    .access = RouteAccess::user,
    .summary = "How many tokens such a conversation has.",
    .is_off_loop = true,
    .has_json_body = true,
    .errors = ErrorForm::anthropic,
    .schema = {.response = json_content<anthropic::TokenCount>,
               .body = RequestBodySchema{CallKind::message_count, "MessageCountRequest"}},
    .handle = start_count};

}  // namespace nvllm::server
