// Schemas from the field lists of the responses.
#include "lib/server/openai/response_schemas.h"

#include "lib/server/openai/response_fields.h"
#include "lib/server/openai/status_response.h"

namespace nvllm::server {
nlohmann::ordered_json response_schemas() {
    using namespace responses;
    return named_schemas<Error, AnthropicError, Usage, CompletionLogprobs, ChatLogprobs, Completion,
                         CompletionChunk, ChatCompletion, ChatCompletionChunk, Embeddings, Scores,
                         Ranking, Classifications, Model, ModelList, Tokens, RenderedPrompt, Text,
                         TokenizerInfo, State, Version, Load, Status>();
}

}  // namespace nvllm::server
