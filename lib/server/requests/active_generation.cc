// Gathering outputs and writing them.
#include "lib/server/requests/active_generation.h"

#include <algorithm>
#include <new>

namespace nvllm::server {
namespace {

double milliseconds_between(ActiveGeneration::Clock::time_point begin,
                            ActiveGeneration::Clock::time_point end) {
    return std::chrono::duration<double, std::milli>(end - begin).count();
}

AbortCause cause_of(DisconnectReason why) {
    switch (why) {
        case DisconnectReason::closed:
            return AbortCause::disconnect;
        case DisconnectReason::stalled:
            return AbortCause::write_stall;
        case DisconnectReason::shut_down:
            break;
    }
    return AbortCause::shutdown;
}

// Its approximate size in the response.
size_t bytes_of(const ContinuationOutput& part) {
    constexpr size_t kBytesOfId = 8;
    constexpr size_t kBytesOfLogprob = 96;
    size_t bytes = part.text.size() + kBytesOfId * part.token_ids.size();
    for (const SampledLogprobs& one : part.logprobs) {
        bytes += kBytesOfLogprob * (1 + one.top.size());
    }
    return bytes;
}

template <typename T>
void append(std::vector<T>& target, std::vector<T>&& more) {
    target.insert(target.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

}  // namespace

ActiveGeneration::ActiveGeneration(GenerationRequest request, const MakeWriter& make_writer,
                                   std::shared_ptr<HostedModel> model,
                                   std::shared_ptr<HttpTransaction> transaction,
                                   AdmissionPermit permit, TaskPool& pool,
                                   RequestEndListener on_end)
    : request_(std::move(request)),
      model_(std::move(model)),
      transaction_(std::move(transaction)),
      pool_(pool),
      on_end_(std::move(on_end)),
      writer_(make_writer(request_, *model_, *transaction_)),
      permit_(std::move(permit)),
      choices_(request_.num_choices()),
      completion_tokens_(request_.num_choices()) {}

void ActiveGeneration::start(std::vector<Request> prepared) {
    const auto self = shared_from_this();
    {
        const std::lock_guard lock(mutex_);
        num_open_prompts_ = prepared.size();
        end_token_ids_ = prepared.front().eos_token_ids;
        for (size_t i = 0; i < choices_.size(); ++i) {
            outputs_.push_back(output_of(i, prepared[prompt_of(i)]));
        }
        for (const Request& request : prepared) {
            Prompt& prompt = prompts_.emplace_back();
            prompt.computed.token_ids = request.prompt_token_ids;
            prompt.metrics =
                std::make_shared<RequestMetrics>(model_->metrics(), request, &model_->timeline());
        }
        for (size_t i = 0; i < prepared.size(); ++i) {
            prepared[i].wants_progress = true;
            prompts_[i].request = model_->engine()->submit(
                std::move(prepared[i]),
                [self, i](RequestOutput&& output) { self->gather(i, std::move(output)); });
        }
    }
    if (request_.stream) transaction_->stream(self);
    transaction_->on_disconnect([self](DisconnectReason why) { self->disconnected(why); });
}

// --- On the engine thread ---

void ActiveGeneration::gather(size_t number, RequestOutput&& output) {
    bool is_over = false;
    bool has_responded = false;
    {
        const std::lock_guard lock(mutex_);
        Prompt& prompt = prompts_[number];
        prompt.metrics->observe(output);
        prompt.num_cached_tokens = output.num_cached_tokens;
        prompt.num_without_state = output.num_without_state;
        prompt.num_computed_tokens = output.num_computed_prompt_tokens;
        prompt.is_scheduled |= output.times.first_scheduled_s.has_value();
        if (prompt.is_scheduled && !scheduled_at_) scheduled_at_ = Clock::now();
        append(prompt.computed.logprobs, std::move(output.prompt_logprobs));
        for (ContinuationOutput& part : output.continuations)
            gather_choice(number, std::move(part));
        if (output.finished) {
            prompt.is_finished = true;
            is_over = --num_open_prompts_ == 0;
        }
        if (request_.stream && unsent_bytes_ > kMaxUnsentBytes && !is_over) set_paused(true);
        if (is_over) release();
        has_responded = error_.has_value();
    }
    if (request_.stream) {
        transaction_->wake();
    } else if (is_over && !has_responded) {
        const auto self = shared_from_this();
        if (!pool_.try_run([self] { self->respond_whole(); })) respond_whole();
    }
    if (is_over) on_end_(*this, end_);
}

void ActiveGeneration::release() {
    const Usage usage = usage_locked();
    permit_.release(usage);
    transaction_->notes.set_usage(usage);
    set_paused(false);
}

void ActiveGeneration::set_paused(bool is_paused) {
    if (std::exchange(is_paused_, is_paused) == is_paused) return;
    model_->server_metrics().stream_paused(is_paused);
    for (const Prompt& prompt : prompts_) {
        if (prompt.is_finished) continue;
        model_->engine()->hold(prompt.request, is_paused);
    }
}

void ActiveGeneration::gather_choice(size_t number, ContinuationOutput&& part) {
    const size_t index =
        number * static_cast<size_t>(request_.n()) + static_cast<size_t>(part.index);
    PendingChoice& pending = choices_[index];
    pending.has_any = true;
    if (!request_.is_prompt_only) {
        unsent_bytes_ += bytes_of(part);
        pending.text += part.text;
        if (!request_.format.reasoning.empty()) {
            pending.pieces.push_back(
                {part.text.size(), part.num_generated_tokens - completion_tokens_[index]});
        }
        if (request_.return_token_ids) append(pending.token_ids, std::move(part.token_ids));
        append(pending.logprobs, std::move(part.logprobs));
        completion_tokens_[index] = part.num_generated_tokens;
    }
    if (!part.finish_reason) return;
    pending.is_finished = true;
    pending.finish_reason = part.finish_reason;
    pending.stop_reason = stop_reason_of(part);
    if (part.finish_reason == FinishReason::error && !error_) {
        error_ = api_error(part.fault.value_or(Fault{ErrorKind::internal, "the request failed"}));
        end_ = RequestEnd::failed;
        transaction_->notes.set_error(error_word(*error_), error_->param);
        cancel_all(AbortCause::unknown);
        if (!request_.stream) transaction_->respond(error_response(*error_));
    }
}

// What the client asked to stop at: as in vLLM, an end token of the model is no such thing, even
// where it is one of stop_token_ids as well.
responses::StopReason ActiveGeneration::stop_reason_of(const ContinuationOutput& part) const {
    if (part.stop_string) return *part.stop_string;
    const auto is_in = [&](const std::vector<int32_t>& ids) {
        return std::ranges::find(ids, *part.stop_token_id) != ids.end();
    };
    if (!part.stop_token_id) return std::nullopt;
    const SamplingParams& sampling = request_.inputs.front().sampling;
    const bool is_end = !sampling.ignore_eos && is_in(end_token_ids_);
    if (is_end || !is_in(sampling.stop_token_ids)) return std::nullopt;
    return *part.stop_token_id;
}

void ActiveGeneration::cancel_all(AbortCause cause) {
    for (const Prompt& prompt : prompts_) {
        if (prompt.is_finished) continue;
        prompt.metrics->aborting(cause);
        model_->engine()->cancel(prompt.request);
    }
}

// --- From other threads ---

void ActiveGeneration::fail(ApiError error, AbortCause cause) {
    {
        const std::lock_guard lock(mutex_);
        if (error_ || num_open_prompts_ == 0) return;
        error_ = error;
        end_ = RequestEnd::failed;
        transaction_->notes.set_error(error_word(error), error.param);
        cancel_all(cause);
    }
    if (request_.stream) {
        transaction_->wake();
    } else {
        transaction_->respond(error_response(error));
    }
}

void ActiveGeneration::disconnected(DisconnectReason why) {
    const std::lock_guard lock(mutex_);
    if (num_open_prompts_ == 0) return;
    if (!error_) end_ = RequestEnd::aborted;
    cancel_all(cause_of(why));
}

void ActiveGeneration::check_deadlines(const RequestTimeouts& timeouts, Clock::time_point now) {
    const double age_s = std::chrono::duration<double>(now - begun_).count();
    bool is_scheduled = false;
    {
        const std::lock_guard lock(mutex_);
        if (error_ || num_open_prompts_ == 0) return;
        is_scheduled = scheduled_at_.has_value();
    }
    if (timeouts.queue_s > 0.0 && !is_scheduled && age_s > timeouts.queue_s) {
        fail({.status = 503,
              .message = "the request waited longer than it may without being begun",
              .code = "queue_timeout",
              .retry_after_s = 1},
             AbortCause::queue_timeout);
        return;
    }
    if (timeouts.request_s == 0.0 || age_s <= timeouts.request_s) return;
    if (timeouts.gives_partial_response) {
        const std::lock_guard lock(mutex_);
        cancel_all(AbortCause::deadline);  // the response has the tokens gathered so far
        return;
    }
    fail({.status = 504,
          .message = "the request took longer than it may: ask for fewer tokens",
          .code = "deadline_exceeded"},
         AbortCause::deadline);
}

Usage ActiveGeneration::usage() const {
    const std::lock_guard lock(mutex_);
    return usage_locked();
}

RequestStats ActiveGeneration::stats() const {
    const std::lock_guard lock(mutex_);
    const Usage usage = usage_locked();
    RequestStats stats{.id = writer_->id(),
                       .is_scheduled = scheduled_at_.has_value(),
                       .age_s = milliseconds_between(begun_, Clock::now()) / 1000.0,
                       .prompt_tokens = usage.prompt_tokens,
                       .generated_tokens = usage.completion_tokens,
                       .engine = model_->engine()};
    for (const Prompt& prompt : prompts_) stats.engine_ids.push_back(prompt.request);
    return stats;
}

Usage ActiveGeneration::usage_locked() const {
    Usage usage;
    for (const Prompt& prompt : prompts_) {
        usage.prompt_tokens += static_cast<int64_t>(prompt.computed.token_ids.size());
        usage.cached_tokens += prompt.num_cached_tokens;
        usage.tokens_without_state += prompt.num_without_state;
    }
    for (const int64_t count : completion_tokens_) usage.completion_tokens += count;
    if (request_.format.reasoning.empty()) return usage;
    usage.reasoning_tokens = 0;
    for (const ChoiceOutput& output : outputs_) {
        *usage.reasoning_tokens += output.reasoning_tokens();
    }
    return usage;
}

// --- Writing ---

void ActiveGeneration::respond_whole() {
    HttpResponse response;
    try {
        response.body = whole_body();
    } catch (const std::bad_alloc&) {
        response = error_response(out_of_memory());
    }
    transaction_->respond(std::move(response));
}

std::string ActiveGeneration::whole_body() {
    const std::lock_guard lock(mutex_);
    std::vector<ChoiceNews> choices;
    for (size_t index = 0; index < choices_.size(); ++index) {
        read_text(index);
        choices.push_back(news_of(index));
    }
    return writer_->whole(std::move(choices), usage_locked());
}

ChoiceOutput ActiveGeneration::output_of(size_t choice, const Request& prepared) const {
    std::optional<OutputParser> parser;
    const auto& tokenizer = model_->engine()->tokenizer();
    const OutputFormat& format = request_.format;
    const bool is_read = !format.tools.empty() || !format.reasoning.empty();
    if (is_read && tokenizer != nullptr) {
        const OutputContext context{request_.tool_request.offered,
                                    end_of_prompt(*tokenizer, prepared.prompt_token_ids),
                                    request_.held_calls};
        parser = std::move(make_output_parser(format, context).value_or_throw());
    }
    return {std::move(parser), transaction_->request_id, choice};
}

void ActiveGeneration::read_text(size_t index) {
    PendingChoice& pending = choices_[index];
    ChoiceOutput& output = outputs_[index];
    const std::string text = std::exchange(pending.text, {});
    std::string_view unread = text;
    for (const TextPiece& piece : std::exchange(pending.pieces, {})) {
        output.push(unread.substr(0, piece.num_bytes), piece.num_tokens);
        unread.remove_prefix(piece.num_bytes);
    }
    if (!unread.empty()) output.push(unread, 0);
    if (pending.finish_reason && !std::exchange(pending.is_read, true)) output.finish();
}

ChoiceNews ActiveGeneration::news_of(size_t index) {
    PendingChoice& pending = choices_[index];
    ChoiceNews news{.index = index, .prompt = &prompts_[prompt_of(index)].computed};
    news.is_first = !std::exchange(pending.has_begun, true);
    news.said = outputs_[index].take();
    news.has_called = outputs_[index].has_called();
    news.token_ids = std::exchange(pending.token_ids, {});
    news.logprobs = std::exchange(pending.logprobs, {});
    news.finish_reason = pending.finish_reason;
    if (news.finish_reason == FinishReason::cancelled) news.finish_reason = FinishReason::length;
    news.stop_reason = pending.stop_reason;
    pending.has_any = false;
    return news;
}

void ActiveGeneration::begin_events(StreamEvents& events) {
    if (!scheduled_at_ || std::exchange(has_begun_, true)) return;
    writer_->begin(usage_locked(), events);
}

void ActiveGeneration::progress_event(StreamEvents& events) {
    if (!request_.return_progress || !scheduled_at_) return;
    PromptProgress progress;
    for (const Prompt& prompt : prompts_) {
        progress.total += static_cast<int64_t>(prompt.computed.token_ids.size());
        progress.cached += prompt.num_cached_tokens;
        progress.processed += prompt.num_computed_tokens;
    }
    const bool has_changed = progress.processed != sent_progress_.processed;
    sent_progress_ = progress;
    if (!has_changed) return;
    progress.time_ms = milliseconds_between(*scheduled_at_, Clock::now());
    writer_->progress(progress, usage_locked(), events);
}

StreamState ActiveGeneration::take(StreamEvents& events) {
    const std::lock_guard lock(mutex_);
    begin_events(events);
    progress_event(events);
    if (error_) {
        writer_->failure(*error_, events);
        return StreamState::failed;
    }
    for (size_t index = 0; index < choices_.size(); ++index) {
        PendingChoice& pending = choices_[index];
        if (!pending.has_any) continue;
        read_text(index);
        // A token without text yet is no news to the client.
        const bool has_something = outputs_[index].has_news() || pending.finish_reason ||
                                   request_.return_token_ids || !pending.logprobs.empty();
        if (has_something) writer_->news(news_of(index), usage_locked(), events);
    }
    unsent_bytes_ = 0;
    if (num_open_prompts_ > 0) set_paused(false);
    if (num_open_prompts_ > 0) return StreamState::open;
    writer_->end(usage_locked(), events);
    return StreamState::complete;
}

StreamEvent ActiveGeneration::cut_off(const std::string&) {
    const std::lock_guard lock(mutex_);
    StreamEvents events;
    writer_->failure(shutting_down(), events);
    return std::move(events.back());
}

}  // namespace nvllm::server
