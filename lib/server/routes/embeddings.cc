// POST /v1/embeddings: texts as vectors.
#include <openssl/evp.h>

#include <bit>

#include "lib/server/openai/embedding_request.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/requests/active_pooling.h"
#include "lib/server/routes/model_request.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

std::string base64_of(const std::vector<float>& vector) {
    static_assert(std::endian::native == std::endian::little);
    const auto num_bytes = static_cast<int>(vector.size() * sizeof(float));
    std::string text((static_cast<size_t>(num_bytes) + 2) / 3 * 4, '\0');
    // Writes a terminating zero as well, which std::string has room for.
    ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(vector.data()), num_bytes);
    return text;
}

std::string embeddings_json(const EmbeddingRequest& request, const std::string& model,
                            std::span<const PooledText> texts) {
    responses::Embeddings embeddings;
    embeddings.model = model;
    for (size_t i = 0; i < texts.size(); ++i) {
        responses::Embedding& one = embeddings.data.emplace_back();
        one.index = i;
        one.embedding = std::span<const float>(texts[i].vector);
        if (request.as_base64) one.embedding = base64_of(texts[i].vector);
        embeddings.usage.prompt_tokens += texts[i].num_tokens;
    }
    return json_of(embeddings);
}

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
    auto admitted = admit(context, transaction, *asked, "input", request->inputs, num_texts);
    if (!admitted) return;
    add_ignored_header(transaction, request->ignored);
    const std::string name = request->model.empty() ? model.name() : request->model;
    PoolingRoute route{.id_prefix = "embd-",
                       .write = [asks = std::move(*request), name](
                                    const std::string&, std::span<const PooledText> texts) {
                           return embeddings_json(asks, name, texts);
                       }};
    auto embedding =
        std::make_shared<ActivePooling>(std::move(route), asked->model, transaction,
                                        std::move(admitted->permit), removal_from(context.active));
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
