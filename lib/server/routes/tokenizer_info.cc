// GET /tokenizer_info: a tokenizer's properties in vLLM's words, which lm-eval reads.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

std::optional<std::string> text_or_null(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

HttpResponse tokenizer_info_response(const RouteContext& context, const HttpRequest& request) {
    ApiError error;
    const auto model =
        find_ready_with_tokenizer(context.models, model_name_in_query(request), error);
    if (model == nullptr) return error_response(error);
    const Tokenizer& tokenizer = *model->engine()->tokenizer();
    responses::TokenizerInfo info;
    info.tokenizer_class = tokenizer.algorithm();
    info.bos_token = text_or_null(tokenizer.bos_text());
    info.eos_token = text_or_null(tokenizer.eos_text());
    info.vocab_size = tokenizer.vocab_size();
    info.model_max_length = model->engine()->memory_plan().max_model_len;
    info.chat_template = text_or_null(tokenizer.chat_template());
    return typed_response(info);
}

}  // namespace

constinit const Route routes::tokenizer_info = {
    .method = "GET",
    .path = "/tokenizer_info",
    .access = RouteAccess::user,
    .summary = "What clients that tokenize by these routes must know; of ?model=NAME.",
    .schema = {.response = json_content<responses::TokenizerInfo>, .query_parameter = "model"},
    .handle = respond_at_once<tokenizer_info_response>};

}  // namespace nvllm::server
