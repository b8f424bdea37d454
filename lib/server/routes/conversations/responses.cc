// POST /v1/responses and /v1/responses/input_tokens; GET and DELETE /v1/responses/ID: responses
// that are kept.
#include <fmt/format.h>

#include "lib/base/json.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/responses/item_references.h"
#include "lib/server/responses/response_object_writer.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/conversations/token_count.h"
#include "lib/server/routes/generation_route.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

using responses::DeletedResponse;
using responses::InputTokenCount;
using responses::Response;
using responses::ResponseEvent;

constexpr std::string_view kPath = "/v1/responses/";

ApiError not_kept(const std::string& id) {
    return {.status = 404,
            .message = fmt::format("the response '{}' is not kept here", id.substr(0, 128)),
            .code = "response_not_found"};
}

// The messages that a response goes on from; null without one.
Result<nlohmann::ordered_json> earlier_messages(RouteContext& context, const std::string& owner,
                                                const nlohmann::ordered_json& body) {
    const auto given = body.find("previous_response_id");
    if (given == body.end() || !given->is_string()) return nlohmann::ordered_json();
    const auto& id = given->get_ref<const std::string&>();
    const std::string field = "previous_response_id";
    if (!context.responses.is_on()) {
        return Fault{ErrorKind::bad_data,
                     "'previous_response_id': this server keeps no responses "
                     "(--max-stored-responses 0): send the whole conversation as input",
                     field, "unsupported_parameter"};
    }
    const auto stored = context.responses.find(owner, id);
    if (stored == nullptr)
        return Fault{ErrorKind::bad_data, not_kept(id).message, field, "response_not_found"};
    return parse_ordered_json(stored->messages, "stored response");
}

// The request, with what is kept here and it only names.
Result<ResponseRequest> read_request(RouteContext& context, const std::string& owner,
                                     nlohmann::ordered_json body, const HostedModel& model) {
    auto earlier = earlier_messages(context, owner, body);
    if (!earlier) return earlier.fault();
    if (const auto input = body.find("input"); input != body.end()) {
        if (auto fault = resolve_item_references(*input, owner, context.responses)) return *fault;
    }
    return read_response_request(std::move(body), *std::move(earlier), model.default_sampling(),
                                 model.request_limits());
}

void start_response(RouteContext& context, const TransactionPointer& transaction) {
    const std::string owner = owner_of(context, *transaction);
    const auto read = [&](nlohmann::ordered_json body,
                          const HostedModel& model) -> Result<GenerationCall> {
        const bool asks_to_keep = body.value("store", nlohmann::ordered_json()) == true;
        auto request = read_request(context, owner, std::move(body), model);
        if (!request) return request.fault();
        if (auto fault = set_output(model.output(), request->generation)) return *fault;
        if (!context.responses.is_on()) {
            request->settings.is_stored = false;
            if (asks_to_keep) request->generation.ignored.emplace_back("store");
        }
        const auto make = [&store = context.responses, owner,
                           settings = std::move(request->settings)](
                              const GenerationRequest& generation, const HostedModel& hosted,
                              const HttpTransaction& asked) -> std::unique_ptr<ResponseWriter> {
            ResponseObjectWriter::Head head{
                asked.request_id, generation.model.empty() ? hosted.name() : generation.model,
                owner};
            return std::make_unique<ResponseObjectWriter>(generation, settings, std::move(head),
                                                          store);
        };
        return GenerationCall{std::move(request->generation), make};
    };
    start_generation(context, transaction, read, "input");
}

HttpResponse input_token_response(RouteContext& context, const TransactionPointer& transaction) {
    auto body = read_body(transaction->request(), context.config);
    if (!body) return fault_response(body.fault());
    if (!body->is_object()) return error_response({.message = "the request must be a JSON object"});
    ApiError error;
    const auto model = find_ready_with_tokenizer(context.models, model_name_in(*body), error);
    if (model == nullptr) return error_response(error);
    const auto request =
        read_request(context, owner_of(context, *transaction), *std::move(body), *model);
    if (!request) return fault_response(request.fault());
    const GenerationRequest& generation = request->generation;
    const auto count = count_tokens(*model, std::get<ChatPrompt>(generation.inputs.front().prompt));
    if (!count) return fault_response(count.fault());
    HttpResponse response = typed_response(InputTokenCount{*count});
    if (!generation.ignored.empty()) {
        response.headers.push_back(ignored_header(generation.ignored));
    }
    return response;
}

void count_input_tokens(RouteContext& context, const TransactionPointer& transaction) {
    transaction->respond(input_token_response(context, transaction));
}

std::string id_in(const HttpRequest& request) {
    return percent_decoded(request.path.substr(kPath.size()));
}

void give_response(RouteContext& context, const TransactionPointer& transaction) {
    const HttpRequest& request = transaction->request();
    const std::string id = id_in(request);
    const auto stored = context.responses.find(owner_of(context, request), id);
    HttpResponse response;
    if (stored == nullptr) {
        response = error_response(not_kept(id));
    } else {
        response.body = stored->body;
    }
    transaction->respond(std::move(response));
}

void forget_response(RouteContext& context, const TransactionPointer& transaction) {
    const HttpRequest& request = transaction->request();
    const std::string id = id_in(request);
    const bool was_kept = context.responses.erase(owner_of(context, request), id);
    transaction->respond(was_kept ? typed_response(DeletedResponse{id})
                                  : error_response(not_kept(id)));
}

nlohmann::ordered_json response_content() {
    schema::Json content = json_content<Response>();
    content.update(media_content("text/event-stream", schema::reference(ResponseEvent::kName)));
    return content;
}

nlohmann::ordered_json response_types() {
    return named_schemas<Response, ResponseEvent, DeletedResponse, InputTokenCount>();
}

}  // namespace

constinit const Route routes::responses = {
    .method = "POST",
    .path = "/v1/responses",
    .access = RouteAccess::user,
    .summary = "Answers a conversation of items, and keeps the answer.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = response_content,
               .body = RequestBodySchema{CallKind::response, "ResponseRequest"},
               .description = kWebSocketDescription,
               .types = response_types},
    .handle = start_response};

constinit const Route routes::response_tokens = {
    .method = "POST",
    .path = "/v1/responses/input_tokens",
    .access = RouteAccess::user,
    .summary = "How many tokens such a conversation has.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = json_content<InputTokenCount>,
               .body = RequestBodySchema{CallKind::response, "ResponseRequest"}},
    .handle = count_input_tokens};

constinit const Route routes::stored_response = {.method = "GET",
                                                 .path = "/v1/responses/*",
                                                 .access = RouteAccess::user,
                                                 .summary = "A response that was kept.",
                                                 .schema = {.response = json_content<Response>},
                                                 .handle = give_response};

constinit const Route routes::forgotten_response = {
    .method = "DELETE",
    .path = "/v1/responses/*",
    .access = RouteAccess::user,
    .summary = "Forgets a response that was kept.",
    .schema = {.response = json_content<DeletedResponse>},
    .handle = forget_response};

}  // namespace nvllm::server
