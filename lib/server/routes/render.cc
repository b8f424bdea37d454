// POST /v1/chat/completions/render: the prompt that a chat would be answered from, and nothing
// generated.
#include "lib/chat/conversation_renderer.h"
#include "lib/server/http/typed_response.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/model_request.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

// The text and ids that /v1/chat/completions computes for the same body, checked alike.
Result<responses::RenderedPrompt> rendered(const RequestInput& input, const Engine& engine) {
    const auto chat =
        engine.input_processor().conversations().render(*std::get<ChatPrompt>(input.prompt));
    if (!chat) return chat.fault();
    auto request = engine.prepare(input);
    if (!request) return request.fault();
    responses::RenderedPrompt prompt;
    prompt.prompt = chat->text;
    prompt.count = request->prompt_token_ids.size();
    prompt.prompt_token_ids = std::move(request->prompt_token_ids);
    prompt.max_tokens = request->sampling.max_tokens.value_or(0);
    prompt.max_model_len = engine.memory_plan().max_model_len;
    return prompt;
}

void respond_with_prompt(RouteContext& context, const TransactionPointer& transaction) {
    auto asked = read_model_request(context, transaction);
    if (!asked) return;
    HostedModel& model = *asked->model;
    auto request =
        read_chat_request(std::move(asked->body), model.default_sampling(), model.request_limits());
    if (!request) return refuse(transaction, request.fault());
    request->inputs.front().grammar.reset();  // no part of a prompt, and it takes long to compile
    auto prompt = rendered(request->inputs.front(), *model.engine());
    if (!prompt) return refuse(transaction, prompt.fault());
    add_ignored_header(transaction, request->ignored);
    prompt->model = request->model.empty() ? model.name() : request->model;
    transaction->respond(typed_response(*prompt));
}

}  // namespace

constinit const Route routes::render_chat = {
    .method = "POST",
    .path = "/v1/chat/completions/render",
    .access = RouteAccess::user,
    .summary = "The prompt that a conversation would be answered from.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = json_content<responses::RenderedPrompt>,
               .body = RequestBodySchema{CallKind::chat, "ChatCompletionRequest"}},
    .handle = respond_with_prompt};

}  // namespace nvllm::server
