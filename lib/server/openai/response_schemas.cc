// Schemas from the answers' own lists of fields.
#include "lib/server/openai/response_schemas.h"

#include "lib/server/openai/response_fields.h"
#include "lib/server/openai/status_response.h"

namespace nvllm::server {
namespace {

using schema::Json;

template <typename... Answers>
Json named_schemas() {
    Json all = Json::object();
    ((all[Answers::kName] = object_schema<Answers>()), ...);
    return all;
}

Json media(const char* type, Json schema) {
    Json json = Json::object();
    json[type]["schema"] = std::move(schema);
    return json;
}

template <typename Response>
Json json_of_type() {
    return media("application/json", schema::reference(Response::kName));
}

// A whole answer, or with `stream` one event after the other.
template <typename Whole, typename Chunk>
Json whole_or_stream() {
    Json content = json_of_type<Whole>();
    Json event =
        schema::any_of({schema::reference(Chunk::kName), schema::reference(responses::Error::kName),
                        schema::values({"[DONE]"})});
    event["description"] = "The data of each event; the last one is [DONE], after an error none.";
    content.update(media("text/event-stream", std::move(event)));
    return content;
}

}  // namespace

Json response_schemas() {
    using namespace responses;
    return named_schemas<Error, Usage, CompletionLogprobs, ChatLogprobs, Completion,
                         CompletionChunk, ChatCompletion, ChatCompletionChunk, Embeddings, Model,
                         ModelList, Tokens, Text, TokenizerInfo, State, Version, Load, Status>();
}

Json response_content(RouteAction action) {
    using namespace responses;
    switch (action) {
        case RouteAction::page:
            return media("text/html", schema::text());
        case RouteAction::scrape:
            return media("text/plain", schema::text());
        case RouteAction::live:
        case RouteAction::ready:
            return json_of_type<State>();
        case RouteAction::version:
            return json_of_type<Version>();
        case RouteAction::load:
            return json_of_type<Load>();
        case RouteAction::openapi:
            return media("application/json", schema::object());
        case RouteAction::status:
            return json_of_type<Status>();
        case RouteAction::models:
            return json_of_type<ModelList>();
        case RouteAction::model:
            return json_of_type<Model>();
        case RouteAction::completions:
            return whole_or_stream<Completion, CompletionChunk>();
        case RouteAction::chat_completions:
            return whole_or_stream<ChatCompletion, ChatCompletionChunk>();
        case RouteAction::embeddings:
            return json_of_type<Embeddings>();
        case RouteAction::tokenize:
            return json_of_type<Tokens>();
        case RouteAction::detokenize:
            return json_of_type<Text>();
        case RouteAction::tokenizer_info:
            return json_of_type<TokenizerInfo>();
        case RouteAction::drain:
        case RouteAction::reload_keys:
        case RouteAction::resize_cache:
        case RouteAction::dump_state:
        case RouteAction::timeline:
        case RouteAction::load_model:
        case RouteAction::unload_model:
            break;
    }
    return media("application/json", schema::anything());
}

}  // namespace nvllm::server
