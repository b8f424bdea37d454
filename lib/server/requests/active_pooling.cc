// Gathering vectors, writing the response.
#include "lib/server/requests/active_pooling.h"

#include <new>

namespace nvllm::server {
namespace {

double seconds_between(ActiveRequest::Clock::time_point begin,
                       ActiveRequest::Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

ActivePooling::ActivePooling(PoolingRoute route, std::shared_ptr<HostedModel> model,
                             std::shared_ptr<HttpTransaction> transaction, AdmissionPermit permit,
                             RequestEndListener on_end)
    : route_(std::move(route)),
      model_(std::move(model)),
      transaction_(std::move(transaction)),
      on_end_(std::move(on_end)),
      permit_(std::move(permit)) {}

void ActivePooling::start(std::vector<Request> prepared) {
    const auto self = shared_from_this();
    {
        const std::lock_guard lock(mutex_);
        num_open_ = prepared.size();
        texts_.resize(prepared.size());
        pooled_.resize(prepared.size());
        for (size_t i = 0; i < prepared.size(); ++i) {
            Text& text = texts_[i];
            pooled_[i].num_tokens = static_cast<int64_t>(prepared[i].prompt_token_ids.size());
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
void ActivePooling::gather(size_t number, RequestOutput&& output) {
    std::optional<ApiError> error;
    bool is_over = false;
    bool responses = false;
    {
        const std::lock_guard lock(mutex_);
        Text& text = texts_[number];
        text.metrics->observe(output);
        if (!output.finished) return;
        text.is_finished = true;
        pooled_[number].vector = std::move(output.embedding);
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
void ActivePooling::release() {
    const Usage usage = usage_locked();
    permit_.release(usage);
    transaction_->notes.set_usage(usage);
}

void ActivePooling::cancel_unfinished(AbortCause cause) {
    for (const Text& text : texts_) {
        if (text.is_finished) continue;
        text.metrics->aborting(cause);
        model_->engine()->cancel(text.request);
    }
}

void ActivePooling::fail(const ApiError& error, AbortCause cause) {
    {
        const std::lock_guard lock(mutex_);
        if (has_responded_) return;
        has_responded_ = true;
        end_ = RequestEnd::failed;
        cancel_unfinished(cause);
    }
    transaction_->respond(error_response(error));
}

void ActivePooling::check_deadlines(const RequestTimeouts& timeouts, Clock::time_point now) {
    if (timeouts.request_s == 0.0 || seconds_between(begun_, now) <= timeouts.request_s) return;
    fail({.status = 504,
          .message = std::string("the request took longer than it may: ") + route_.advice,
          .code = "deadline_exceeded"},
         AbortCause::deadline);
}

Usage ActivePooling::usage() const {
    const std::lock_guard lock(mutex_);
    return usage_locked();
}

Usage ActivePooling::usage_locked() const {
    Usage usage;
    for (const PooledText& text : pooled_) usage.prompt_tokens += text.num_tokens;
    return usage;
}

RequestStats ActivePooling::stats() const {
    const double age_s = seconds_between(begun_, Clock::now());
    return {id(), true, age_s, usage().prompt_tokens, 0};
}

HttpResponse ActivePooling::response() const {
    try {
        HttpResponse response;
        const std::lock_guard lock(mutex_);
        response.body = route_.write(id(), pooled_);
        return response;
    } catch (const std::bad_alloc&) {
        return error_response(out_of_memory());
    }
}

std::string ActivePooling::id() const {
    return std::string(route_.id_prefix) + transaction_->request_id;
}

}  // namespace nvllm::server
