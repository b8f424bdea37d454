// Schemas from the field lists of the responses.
#include "lib/server/openai/response_schemas.h"

#include "lib/server/openai/batch_types.h"
#include "lib/server/openai/response_fields.h"
#include "lib/server/openai/status_response.h"

namespace nvllm::server {
namespace {

template <typename... Responses>
schema::Json named_schemas() {
    schema::Json all = schema::Json::object();
    ((all[Responses::kName] = object_schema<Responses>()), ...);
    return all;
}

}  // namespace

nlohmann::ordered_json response_schemas() {
    using namespace responses;
    return named_schemas<Error, AnthropicError, Usage, CompletionLogprobs, ChatLogprobs, Completion,
                         CompletionChunk, ChatCompletion, ChatCompletionChunk, Embeddings, Scores,
                         Ranking, Classifications, Model, ModelList, Tokens, RenderedPrompt, Text,
                         TokenizerInfo, State, Version, Load, Status, StoredFile, FilePage,
                         RemovedFile, Batch, BatchPage>();
}

}  // namespace nvllm::server
