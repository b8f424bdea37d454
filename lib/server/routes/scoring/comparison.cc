// Pairs for a cross-encoder, single texts for an embedding model.
#include "lib/server/routes/scoring/comparison.h"

#include <algorithm>
#include <cmath>

#include "lib/server/requests/active_pooling.h"

namespace nvllm::server {
namespace {

RequestInput input_of(const ScoreRequest& request, PoolingParams pooling) {
    RequestInput input;
    input.pooling = std::move(pooling);
    input.cache_salt = request.cache_salt;
    input.priority = request.priority;
    input.truncate_prompt_tokens = request.truncate_prompt_tokens;
    return input;
}

std::vector<RequestInput> pairs_of(const ScoreRequest& request, PoolingParams pooling) {
    if (!request.uses_activation) pooling.function = ScoreFunction::none;
    std::vector<RequestInput> inputs(request.seconds.size(), input_of(request, std::move(pooling)));
    for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i].prompt = TextPair{request.first_of(i), request.seconds[i], request.instruction,
                                    request.max_second_tokens};
    }
    return inputs;
}

// All first texts, then all second ones.
std::vector<RequestInput> single_texts_of(const ScoreRequest& request, PoolingParams pooling) {
    pooling.normalize = false;  // the cosine divides by the lengths
    const RequestInput common = input_of(request, std::move(pooling));
    std::vector<RequestInput> inputs;
    for (const auto* texts : {&request.firsts, &request.seconds}) {
        for (const std::string& text : *texts) inputs.emplace_back(common).prompt = text;
    }
    return inputs;
}

// What means nothing to an embedding model.
std::optional<Fault> check_bi_encoder(const ScoreRequest& request) {
    constexpr const char* kWhy = "is for cross-encoders: this model embeds each text by itself";
    const auto refused = [&](const char* name) {
        return Fault{ErrorKind::bad_data, std::string("'") + name + "' " + kWhy, name};
    };
    if (!request.instruction.empty()) return refused("instruction");
    if (request.max_second_tokens) return refused("max_tokens_per_doc");
    if (!request.uses_activation) return refused("use_activation");
    return std::nullopt;
}

Result<std::vector<RequestInput>> inputs_of(const ScoreRequest& request,
                                            const InputProcessor& processor, ScoreMethod method) {
    if (method == ScoreMethod::cross_encoder) {
        return pairs_of(request, processor.scoring().cross_encoder_pooling());
    }
    if (auto fault = check_bi_encoder(request)) return *fault;
    const auto pooling = processor.default_pooling();
    if (!pooling) return pooling.fault();
    return single_texts_of(request, *pooling);
}

// 0 where one of them has no direction.
float cosine(const std::vector<float>& a, const std::vector<float>& b) {
    double product = 0.0;
    double squares_a = 0.0;
    double squares_b = 0.0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        product += static_cast<double>(a[i]) * b[i];
        squares_a += static_cast<double>(a[i]) * a[i];
        squares_b += static_cast<double>(b[i]) * b[i];
    }
    const double lengths = std::sqrt(squares_a) * std::sqrt(squares_b);
    return lengths > 0.0 ? static_cast<float>(product / lengths) : 0.0f;
}

std::vector<float> scores_of(const ScoreRequest& request, ScoreMethod method,
                             std::span<const PooledText> texts) {
    std::vector<float> scores;
    for (size_t i = 0; i < request.seconds.size(); ++i) {
        if (method == ScoreMethod::cross_encoder) {
            scores.push_back(texts[i].vector.back());
            continue;
        }
        const size_t num_firsts = request.firsts.size();
        scores.push_back(
            cosine(texts[num_firsts == 1 ? 0 : i].vector, texts[num_firsts + i].vector));
    }
    return scores;
}

}  // namespace

void start_comparison(RouteContext& context, const TransactionPointer& transaction,
                      const ModelRequest& asked, Comparison comparison) {
    const std::shared_ptr<HostedModel>& model = asked.model;
    const InputProcessor& processor = model->engine()->input_processor();
    const auto method = processor.scoring().method();
    if (!method) return refuse(transaction, method.fault());
    auto inputs = inputs_of(comparison.texts, processor, *method);
    if (!inputs) return refuse(transaction, inputs.fault());
    auto admitted = admit(context, transaction, asked, comparison.texts_field, *inputs,
                          static_cast<int64_t>(inputs->size()));
    if (!admitted) return;
    add_ignored_header(transaction, comparison.texts.ignored);
    const std::string_view prefix = comparison.id_prefix;
    if (comparison.texts.model.empty()) comparison.texts.model = model->name();
    PoolingRoute route{.id_prefix = prefix,
                       .write = [method = *method, comparison = std::move(comparison)](
                                    const std::string& id, std::span<const PooledText> texts) {
                           ComparedTexts compared{id, comparison.texts.model,
                                                  scores_of(comparison.texts, method, texts)};
                           for (const PooledText& text : texts)
                               compared.num_tokens += text.num_tokens;
                           return comparison.write(comparison.texts, compared);
                       }};
    auto active =
        std::make_shared<ActivePooling>(std::move(route), model, transaction,
                                        std::move(admitted->permit), removal_from(context.active));
    context.active.add(active);
    active->start(std::move(admitted->prepared));
}

}  // namespace nvllm::server
