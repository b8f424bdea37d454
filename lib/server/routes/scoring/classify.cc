// POST /classify: texts as scores of a model's classes.
#include <algorithm>
#include <ctime>

#include "lib/server/openai/response_content.h"
#include "lib/server/openai/score_request.h"
#include "lib/server/requests/active_pooling.h"
#include "lib/server/routes/model_request.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

Fault no_classes() {
    return {ErrorKind::bad_data,
            "this model has no head of classes: texts are classified by models of the kind "
            "...ForSequenceClassification",
            "model", "unsupported_model"};
}

std::string classes_json(const std::string& id, const std::string& model,
                         const std::vector<std::string>& labels,
                         std::span<const PooledText> texts) {
    responses::Classifications all;
    all.id = id;
    all.created = std::time(nullptr);
    all.model = model;
    for (size_t i = 0; i < texts.size(); ++i) {
        const std::vector<float>& values = texts[i].vector;
        const auto best = std::ranges::max_element(values) - values.begin();
        all.data.push_back({i, labels[static_cast<size_t>(best)], values});
        all.usage.prompt_tokens += texts[i].num_tokens;
    }
    return json_of(all);
}

void start_classify(RouteContext& context, const TransactionPointer& transaction) {
    auto asked = read_model_request(context, transaction);
    if (!asked) return;
    HostedModel& model = *asked->model;
    const TextScoring& scoring = model.engine()->input_processor().scoring();
    auto request = read_classify_request(std::move(asked->body), model.request_limits());
    if (!request) return refuse(transaction, request.fault());
    if (scoring.labels().empty()) return refuse(transaction, no_classes());
    PoolingParams pooling = scoring.class_pooling();
    if (!request->uses_activation) pooling.function = ScoreFunction::none;
    for (RequestInput& input : request->inputs) input.pooling = pooling;
    auto admitted = admit(context, transaction, *asked, "input", request->inputs,
                          static_cast<int64_t>(request->inputs.size()));
    if (!admitted) return;
    add_ignored_header(transaction, request->ignored);
    const std::string name = request->model.empty() ? model.name() : request->model;
    PoolingRoute route{.id_prefix = "classify-",
                       .write = [name, labels = scoring.labels()](
                                    const std::string& id, std::span<const PooledText> texts) {
                           return classes_json(id, name, labels, texts);
                       }};
    auto active =
        std::make_shared<ActivePooling>(std::move(route), asked->model, transaction,
                                        std::move(admitted->permit), removal_from(context.active));
    context.active.add(active);
    active->start(std::move(admitted->prepared));
}

}  // namespace

constinit const Route routes::classify = {
    .method = "POST",
    .path = "/classify",
    .access = RouteAccess::user,
    .summary = "Texts as scores of the model's classes.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = json_content<responses::Classifications>,
               .body = RequestBodySchema{CallKind::classify, "ClassifyRequest"}},
    .handle = start_classify};

}  // namespace nvllm::server
