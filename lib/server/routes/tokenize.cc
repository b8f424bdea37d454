// POST /tokenize: a text or a chat as token ids.
#include "lib/server/openai/tokenize_request.h"

#include "lib/chat/conversation_renderer.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

// The ids that /v1/chat/completions computes for the same messages and variables.
Result<std::vector<int32_t>> chat_ids(const ChatPrompt& prompt, const Engine& engine) {
    auto chat = engine.input_processor().conversations().render(*prompt);
    if (!chat) return chat.fault();
    return encode_chat(*engine.tokenizer(), *chat, false);
}

Result<std::vector<int32_t>> ids_of(const TokenizeRequest& request, const Engine& engine) {
    if (const auto* chat = std::get_if<ChatPrompt>(&request.input)) return chat_ids(*chat, engine);
    EncodeOptions options;
    options.add_special_tokens = request.add_special_tokens;
    return engine.tokenizer()->encode(std::get<std::string>(request.input), options);
}

HttpResponse tokenize_response(const RouteContext& context, const HttpRequest& http) {
    auto body = read_known_body(http, CallKind::tokenize, context.config);
    if (!body) return fault_response(body.fault());
    const std::string name = model_name_in(body->json);
    ApiError error;
    const auto model = find_ready_with_tokenizer(context.models, name, error);
    if (model == nullptr) return error_response(error);
    const auto request = read_tokenize_request(std::move(body->json), model->request_limits());
    if (!request) return fault_response(request.fault());
    auto ids = ids_of(*request, *model->engine());
    if (!ids) return fault_response(ids.fault());
    responses::Tokens tokens;
    tokens.count = ids->size();
    tokens.max_model_len = model->engine()->memory_plan().max_model_len;
    if (request->return_token_strs) {
        auto& texts = tokens.token_strs.emplace();
        const Tokenizer& tokenizer = *model->engine()->tokenizer();
        for (const int32_t id : *ids) texts.push_back(tokenizer.token_text(id));
    }
    tokens.tokens = std::move(*ids);
    HttpResponse response = typed_response(tokens);
    response.headers = chosen_model_headers(context.models, name, *model);
    if (!body->ignored.empty()) response.headers.push_back(ignored_header(body->ignored));
    return response;
}

}  // namespace

constinit const Route routes::tokenize = {
    .method = "POST",
    .path = "/tokenize",
    .access = RouteAccess::user,
    .summary = "A text as token ids.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = json_content<responses::Tokens>,
               .body = RequestBodySchema{CallKind::tokenize, "TokenizeRequest"}},
    .handle = respond_at_once<tokenize_response>};

}  // namespace nvllm::server
