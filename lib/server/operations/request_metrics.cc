// From outputs to counts.
#include "lib/server/operations/request_metrics.h"

#include <algorithm>

#include "lib/base/clock.h"

namespace nvllm::server {
namespace {

// Of continuations that ended differently, the reason that says most of the request.
int weight(FinishReason reason) {
    switch (reason) {
        case FinishReason::stop:
            return 0;
        case FinishReason::length:
            return 1;
        case FinishReason::cancelled:
            return 2;
        case FinishReason::error:
            return 3;
    }
    return 0;
}

}  // namespace

RequestMetrics::RequestMetrics(ModelMetrics& metrics, const Request& request,
                               RequestTimeline* timeline)
    : metrics_(metrics), timeline_(timeline) {
    request_.num_prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
    request_.n = request.sampling.n;
    request_.max_tokens = request.sampling.max_tokens;
    continuations_.resize(static_cast<size_t>(std::max(1, request.sampling.n)));
    metrics_.accepted();
}

RequestMetrics::~RequestMetrics() {
    if (ended_) return;
    aborting(AbortCause::shutdown);
    request_.reason = FinishReason::cancelled;
    request_.cause = cause_;
    metrics_.ended(request_);
}

void RequestMetrics::aborting(AbortCause cause) {
    AbortCause none = AbortCause::unknown;
    if (cause_.compare_exchange_strong(none, cause)) abort_s_ = MonotonicClock().now_s();
}

void RequestMetrics::observe(const RequestOutput& output) {
    if (ended_) return;
    const bool is_first = !request_.times.first_token_s && output.times.first_token_s;
    request_.times = output.times;
    if (is_first) {
        metrics_.first_token(output, request_.num_prompt_tokens);
        if (timeline_ != nullptr) timeline_->first_token(output.request_id, output.times);
    }
    for (const ContinuationOutput& part : output.continuations) count(part);
    if (output.finished) end(output);
}

void RequestMetrics::count(const ContinuationOutput& part) {
    if (part.finish_reason && weight(*part.finish_reason) > weight(request_.reason)) {
        request_.reason = *part.finish_reason;
    }
    const auto index = static_cast<size_t>(part.index);
    if (part.token_ids.empty() || index >= continuations_.size()) return;
    const auto num_tokens = static_cast<int64_t>(part.token_ids.size());
    metrics_.generated(num_tokens);
    request_.num_generated_tokens += num_tokens;
    Continuation& continuation = continuations_[index];
    continuation.num_tokens += num_tokens;
    request_.longest_answer = std::max(request_.longest_answer, continuation.num_tokens);
    const double now_s = request_.times.output_s;
    if (continuation.last_output_s) metrics_.gap(now_s - *continuation.last_output_s);
    continuation.last_output_s = now_s;
}

void RequestMetrics::end(const RequestOutput& output) {
    ended_ = true;
    if (request_.reason == FinishReason::cancelled) {
        const double abort_s = abort_s_;
        request_.cause = cause_;
        if (abort_s > 0.0) request_.abort_latency_s = MonotonicClock().now_s() - abort_s;
    }
    metrics_.ended(request_);
    if (timeline_ != nullptr) timeline_->finished(output.request_id, output.times, request_.reason);
}

}  // namespace nvllm::server
