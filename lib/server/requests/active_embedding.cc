// Reading the question, gathering vectors, writing the answer.
#include "lib/server/requests/active_embedding.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "lib/server/handlers.h"
#include "lib/server/openai/response_fields.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

std::optional<Fault> read_pooling(const Json& body, PoolingParams& pooling) {
    const Json kind = body.value("pooling", Json());
    const Json normalize = body.value("normalize", Json());
    const Json dimensions = body.value("dimensions", Json());
    if (!kind.is_null()) {
        const std::string word = kind.is_string() ? kind.get<std::string>() : "";
        bool is_known = false;
        for (const PoolingKind each : {PoolingKind::last, PoolingKind::mean, PoolingKind::cls}) {
            if (word != pooling_kind_name(each)) continue;
            pooling.kind = each;
            is_known = true;
        }
        if (!is_known) return field_fault("pooling", "must be last, mean or cls");
    }
    if (!normalize.is_null()) {
        if (!normalize.is_boolean()) return field_fault("normalize", "must be true or false");
        pooling.normalize = normalize.get<bool>();
    }
    if (!dimensions.is_null()) {
        if (!dimensions.is_number_integer() || dimensions < 1 || dimensions > INT32_MAX) {
            return field_fault("dimensions", "must be an integer of at least 1");
        }
        pooling.dimensions = dimensions.get<int32_t>();
    }
    return std::nullopt;
}

Result<std::optional<int32_t>> read_truncation(const Json& body) {
    const Json most = body.value("truncate_prompt_tokens", Json());
    if (most.is_null()) return std::optional<int32_t>();
    if (most.is_number_integer() && most >= -1 && most <= INT32_MAX) {
        return std::optional(most.get<int32_t>());
    }
    return field_fault("truncate_prompt_tokens", "must be an integer of at least -1");
}

Result<bool> wants_base64(const Json& body) {
    const Json format = body.value("encoding_format", Json());
    if (format.is_null() || format == "float") return false;
    if (format == "base64") return true;
    return field_fault("encoding_format", "must be float or base64");
}

std::string base64_of(const std::vector<float>& vector) {
    static_assert(std::endian::native == std::endian::little);
    const auto num_bytes = static_cast<int>(vector.size() * sizeof(float));
    std::string text((static_cast<size_t>(num_bytes) + 2) / 3 * 4, '\0');
    // Writes a terminating zero as well, which std::string has room for.
    ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(vector.data()), num_bytes);
    return text;
}

}  // namespace

Result<EmbeddingRequest> read_embedding_request(Json body, const PoolingParams& defaults,
                                                const RequestLimits& limits) {
    auto ignored = take_idle_fields(body, CallKind::embedding, limits.is_strict);
    if (!ignored) return ignored.fault();
    EmbeddingRequest request;
    request.ignored = std::move(*ignored);
    request.model = body.value("model", Json()).is_string() ? body["model"].get<std::string>() : "";
    const auto base64 = wants_base64(body);
    if (!base64) return base64.fault();
    request.as_base64 = *base64;
    PoolingParams pooling = defaults;
    if (auto fault = read_pooling(body, pooling)) return *fault;
    const auto truncation = read_truncation(body);
    if (!truncation) return truncation.fault();
    auto texts = split_prompts(body.value("input", Json()), "input", limits);
    if (!texts) return texts.fault();
    for (const Json& text : *texts) {
        RequestInput& input = request.inputs.emplace_back();
        input.pooling = pooling;
        input.truncate_prompt_tokens = *truncation;
        std::string as_given;
        if (auto fault = set_prompt(text, "input", input, as_given)) return *fault;
    }
    return request;
}

ActiveEmbedding::ActiveEmbedding(EmbeddingRequest request, std::shared_ptr<HostedModel> model,
                                 std::shared_ptr<HttpTransaction> transaction,
                                 AdmissionPermit permit, RequestEndListener on_end)
    : request_(std::move(request)),
      model_(std::move(model)),
      transaction_(std::move(transaction)),
      on_end_(std::move(on_end)),
      permit_(std::move(permit)) {}

void ActiveEmbedding::start(std::vector<Request> prepared) {
    const auto self = shared_from_this();
    {
        const std::lock_guard lock(mutex_);
        num_open_ = prepared.size();
        texts_.resize(prepared.size());
        for (size_t i = 0; i < prepared.size(); ++i) {
            Text& text = texts_[i];
            text.num_tokens = static_cast<int64_t>(prepared[i].prompt_token_ids.size());
            text.metrics = std::make_shared<RequestMetrics>(model_->metrics(), prepared[i],
                                                            &model_->timeline());
            text.request = model_->engine()->submit(
                std::move(prepared[i]),
                [self, i](RequestOutput&& output) { self->gather(i, std::move(output)); });
        }
    }
    transaction_->on_disconnect([self](DisconnectReason) {
        const std::lock_guard lock(self->mutex_);
        if (self->num_open_ == 0) return;
        if (!self->has_responded_) self->end_ = RequestEnd::aborted;
        self->cancel_unfinished(AbortCause::disconnect);
    });
}

// On the engine thread.
void ActiveEmbedding::gather(size_t number, RequestOutput&& output) {
    std::optional<ApiError> error;
    bool is_over = false;
    bool responses = false;
    {
        const std::lock_guard lock(mutex_);
        Text& text = texts_[number];
        text.metrics->observe(output);
        if (!output.finished) return;
        text.is_finished = true;
        text.vector = std::move(output.embedding);
        for (const ContinuationOutput& part : output.continuations) {
            if (part.fault && !has_responded_) error = api_error(*part.fault);
        }
        is_over = --num_open_ == 0;
        if (is_over) release();
        responses = is_over && !has_responded_ && !error && end_ == RequestEnd::finished;
        if (responses) has_responded_ = true;
    }
    if (error) fail(*error, AbortCause::unknown);
    if (responses) transaction_->respond(response());
    if (is_over) on_end_(*this, end_);
}

// Before the client sees the end.
void ActiveEmbedding::release() {
    const Usage usage = usage_locked();
    permit_.release(usage);
    transaction_->notes.set_usage(usage);
}

void ActiveEmbedding::cancel_unfinished(AbortCause cause) {
    for (const Text& text : texts_) {
        if (text.is_finished) continue;
        text.metrics->aborting(cause);
        model_->engine()->cancel(text.request);
    }
}

void ActiveEmbedding::fail(const ApiError& error, AbortCause cause) {
    {
        const std::lock_guard lock(mutex_);
        if (has_responded_) return;
        has_responded_ = true;
        end_ = RequestEnd::failed;
        cancel_unfinished(cause);
    }
    transaction_->respond(error_response(error));
}

void ActiveEmbedding::check_deadlines(const RequestTimeouts& timeouts, Clock::time_point now) {
    if (timeouts.request.count() == 0 || now - begun_ <= timeouts.request) return;
    fail({.status = 504,
          .message = "the request took longer than it may: ask for fewer texts at once",
          .code = "deadline_exceeded"},
         AbortCause::deadline);
}

Usage ActiveEmbedding::usage() const {
    const std::lock_guard lock(mutex_);
    return usage_locked();
}

Usage ActiveEmbedding::usage_locked() const {
    Usage usage;
    for (const Text& text : texts_) usage.prompt_tokens += text.num_tokens;
    return usage;
}

RequestStats ActiveEmbedding::stats() const {
    const double age_s = std::chrono::duration<double>(Clock::now() - begun_).count();
    return {"embd-" + transaction_->request_id, true, age_s, usage().prompt_tokens, 0};
}

HttpResponse ActiveEmbedding::response() const {
    try {
        HttpResponse response;
        response.body = answer();
        return response;
    } catch (const std::bad_alloc&) {
        return error_response(out_of_memory());
    }
}

std::string ActiveEmbedding::answer() const {
    const std::lock_guard lock(mutex_);
    responses::Embeddings answer;
    answer.model = request_.model.empty() ? model_->name() : request_.model;
    for (size_t i = 0; i < texts_.size(); ++i) {
        responses::Embedding& one = answer.data.emplace_back();
        one.index = i;
        one.embedding = std::span<const float>(texts_[i].vector);
        if (request_.as_base64) one.embedding = base64_of(texts_[i].vector);
        answer.usage.prompt_tokens += texts_[i].num_tokens;
    }
    return json_of(answer);
}

void Handlers::embed(const TransactionPointer& transaction) {
    auto body = body_of(transaction);
    if (!body) return;
    const auto model = model_of(transaction, *body);
    if (model == nullptr) return;
    const auto refuse = [&](const Fault& fault) {
        transaction->respond(error_response(api_error(fault)));
    };
    const auto defaults = model->engine()->input_processor().default_pooling();
    if (!defaults) return refuse(defaults.fault());
    auto request = read_embedding_request(std::move(*body), *defaults, model->request_limits());
    if (!request) return refuse(request.fault());
    const auto num_texts = static_cast<int64_t>(request->inputs.size());
    auto admitted = admit(transaction, *model, "input", request->inputs, num_texts);
    if (!admitted) return;
    if (!request->ignored.empty()) {
        transaction->response_headers.push_back(ignored_header(request->ignored));
    }
    auto call = std::make_shared<ActiveEmbedding>(std::move(*request), model, transaction,
                                                  std::move(admitted->permit), on_end());
    service_.calls.add(call);
    call->start(std::move(admitted->prepared));
}

}  // namespace nvllm::server
