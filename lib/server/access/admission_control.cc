// Counting in and out.
#include "lib/server/access/admission_control.h"

#include <fmt/format.h>

#include <utility>

namespace nvllm::server {
namespace {

constexpr int kRetryAfterSeconds = 1;

// Adds when the sum stays within `most`, or when nothing else is there: a single request is never
// too much.
bool add_within(std::atomic<int64_t>& sum, int64_t amount, int64_t most) {
    int64_t before = sum.load();
    do {
        if (before > 0 && before + amount > most) return false;
    } while (!sum.compare_exchange_weak(before, before + amount));
    return true;
}

}  // namespace

ApiError AdmissionControl::overloaded(std::string message) const {
    return {.status = limits_.overload_status,
            .message = std::move(message),
            .code = "queue_full",
            .retry_after_s = kRetryAfterSeconds,
            .type = "overloaded_error"};
}

std::optional<AdmissionControl::Ticket> AdmissionControl::enter(
    const std::shared_ptr<AdmissionControl>& control, int64_t num_sequences, ApiError& error) {
    if (!add_within(control->sequences_, num_sequences, control->limits_.max_sequences)) {
        error = control->overloaded(fmt::format(
            "{} {} run or wait already, and at most {} may: ask again later",
            control->sequences_.load(), control->limits_.counted, control->limits_.max_sequences));
        return std::nullopt;
    }
    Ticket ticket;
    ticket.control_ = control;
    ticket.sequences_ = num_sequences;
    return ticket;
}

AdmissionControl::Ticket& AdmissionControl::Ticket::operator=(Ticket&& other) noexcept {
    release();
    control_ = std::move(other.control_);
    sequences_ = std::exchange(other.sequences_, 0);
    prompt_tokens_ = std::exchange(other.prompt_tokens_, 0);
    return *this;
}

std::optional<ApiError> AdmissionControl::Ticket::add_prompt_tokens(int64_t count) {
    const int64_t most = control_->limits_.max_prompt_tokens;
    if (!add_within(control_->prompt_tokens_, count, most)) {
        return control_->overloaded(
            fmt::format("{} prompt tokens wait already, and at most {} may: ask again later",
                        control_->prompt_tokens_.load(), most));
    }
    prompt_tokens_ += count;
    return std::nullopt;
}

void AdmissionControl::Ticket::release() {
    if (control_ == nullptr) return;
    control_->sequences_ -= std::exchange(sequences_, 0);
    control_->prompt_tokens_ -= std::exchange(prompt_tokens_, 0);
    control_.reset();
}

}  // namespace nvllm::server
