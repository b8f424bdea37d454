// POST /detokenize: token ids as a text.
#include "lib/server/openai/response_content.h"
#include "lib/server/openai/tokenize_request.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

HttpResponse detokenize_response(const RouteContext& context, const HttpRequest& http) {
    const auto body = read_known_body(http, CallKind::detokenize, context.config);
    if (!body) return fault_response(body.fault());
    const std::string name = model_name_in(body->json);
    ApiError error;
    const auto model = find_ready_with_tokenizer(context.models, name, error);
    if (model == nullptr) return error_response(error);
    const auto ids = read_detokenize_request(body->json);
    if (!ids) return fault_response(ids.fault());
    const Engine& engine = *model->engine();
    if (const auto unknown = engine.input_processor().check_known(*ids, "tokens")) {
        return fault_response(*unknown);
    }
    HttpResponse response =
        typed_response(responses::Text{engine.tokenizer()->decode(*ids, false)});
    response.headers = chosen_model_headers(context.models, name, *model);
    if (!body->ignored.empty()) response.headers.push_back(ignored_header(body->ignored));
    return response;
}

}  // namespace

constinit const Route routes::detokenize = {
    .method = "POST",
    .path = "/detokenize",
    .access = RouteAccess::user,
    .summary = "Token ids as a text.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = json_content<responses::Text>,
               .body = RequestBodySchema{CallKind::detokenize, "DetokenizeRequest"}},
    .handle = respond_at_once<detokenize_response>};

}  // namespace nvllm::server
