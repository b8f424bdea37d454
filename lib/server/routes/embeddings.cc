// POST /v1/embeddings: texts as vectors.
#include "lib/server/openai/response_content.h"
#include "lib/server/requests/active_embedding.h"
#include "lib/server/routes/model_request.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

void start_embedding(RouteContext& context, const TransactionPointer& transaction) {
    auto asked = read_model_request(context, transaction);
    if (!asked) return;
    HostedModel& model = *asked->model;
    const auto defaults = model.engine()->input_processor().default_pooling();
    if (!defaults) return refuse(transaction, defaults.fault());
    auto request =
        read_embedding_request(std::move(asked->body), *defaults, model.request_limits());
    if (!request) return refuse(transaction, request.fault());
    const auto num_texts = static_cast<int64_t>(request->inputs.size());
    auto admitted = admit(context, transaction, model, "input", request->inputs, num_texts);
    if (!admitted) return;
    add_ignored_header(transaction, request->ignored);
    auto embedding = std::make_shared<ActiveEmbedding>(std::move(*request), asked->model,
                                                       transaction, std::move(admitted->permit),
                                                       removal_from(context.active));
    context.active.add(embedding);
    embedding->start(std::move(admitted->prepared));
}

}  // namespace

constinit const Route routes::embeddings = {
    .method = "POST",
    .path = "/v1/embeddings",
    .access = RouteAccess::user,
    .summary = "Texts as vectors.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = json_content<responses::Embeddings>,
               .body = RequestBodySchema{CallKind::embedding, "EmbeddingRequest"}},
    .handle = start_embedding};

}  // namespace nvllm::server
