// Text of each continuation, and what of it may be shown.
#include "lib/engine/output_processor.h"

#include <algorithm>

namespace nvllm {

OutputProcessor::OutputProcessor(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

void OutputProcessor::add(const Request& request, std::span<const SequenceId> sequences) {
    Entry entry{.sampling = request.sampling,
                .stops = StopMatcher(request.sampling.stop),
                .continuations = {},
                .num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size()),
                .num_active = static_cast<int32_t>(sequences.size()),
                .num_cached_tokens = 0,
                .hides_logprobs = request.hides_logprobs,
                .wants_progress = request.wants_progress,
                .times = {},
                .prompt_logprobs = {},
                .embedding = {}};
    entry.times.arrival_s = request.arrival_s;
    for (size_t index = 0; index < sequences.size(); ++index) {
        Continuation continuation;
        continuation.sequence = sequences[index];
        if (tokenizer_ != nullptr && !request.pooling) {
            continuation.detokenizer.emplace(tokenizer_, request.sampling.skip_special_tokens,
                                             request.prompt_token_ids);
        }
        entry.continuations.push_back(std::move(continuation));
        places_.emplace(sequences[index], std::pair(request.id, index));
    }
    entries_.emplace(request.id, std::move(entry));
}

OutputProcessor::Continuation* OutputProcessor::find(SequenceId sequence, Entry*& entry) {
    const auto place = places_.find(sequence);
    if (place == places_.end()) return nullptr;
    entry = &entries_.at(place->second.first);
    return &entry->continuations[place->second.second];
}

void OutputProcessor::admitted(SequenceId sequence, int32_t num_cached_tokens, double now_s) {
    Entry* entry = nullptr;
    if (find(sequence, entry) == nullptr || entry->times.first_scheduled_s) return;
    entry->times.first_scheduled_s = now_s;
    entry->num_cached_tokens = num_cached_tokens;
    note_progress(*entry, num_cached_tokens);
}

void OutputProcessor::planned(SequenceId sequence, int32_t end) {
    Entry* entry = nullptr;
    if (find(sequence, entry) != nullptr) note_progress(*entry, end);
}

// Of several continuations the one that is furthest counts; what was generated is no prompt.
void OutputProcessor::note_progress(Entry& entry, int32_t num_computed_prompt_tokens) {
    if (!entry.wants_progress || num_computed_prompt_tokens > entry.num_prompt_tokens) return;
    entry.num_computed_prompt_tokens =
        std::max(entry.num_computed_prompt_tokens, num_computed_prompt_tokens);
    entry.has_progress = true;
}

void OutputProcessor::check_stop(const SequenceStep& step, StopDecision& decision, double now_s) {
    Entry* entry = nullptr;
    Continuation* continuation = find(step.sequence, entry);
    if (continuation == nullptr || continuation->finished) return;
    if ((decision.num_accepted > 0 || !step.candidates.empty()) && !entry->times.first_token_s) {
        entry->times.first_token_s = now_s;
    }
    if (!step.fault) take_prompt_logprobs(step, *entry);
    if (!step.embedding.empty()) entry->embedding = step.embedding;
    const size_t searched = continuation->text.size();
    append_tokens(step, decision, *entry, *continuation);
    if (decision.finish && continuation->detokenizer) {
        continuation->text += continuation->detokenizer->finish();
    }
    match_stops(*entry, *continuation, searched, decision);
    if (decision.finish) {
        continuation->pending.fault = step.fault;
        continuation->pending.stop_token_id = decision.stop_token_id;
        end(*entry, *continuation, *decision.finish);
    } else {
        emit(*continuation, entry->stops.safe_length(continuation->text));
    }
}

// A prompt that is computed again after a preemption gives the first ones again.
void OutputProcessor::take_prompt_logprobs(const SequenceStep& step, Entry& entry) {
    for (size_t i = 0; i < step.prompt_logprobs.size(); ++i) {
        const int32_t position = step.first_prompt_logprob + static_cast<int32_t>(i);
        if (position != entry.num_prompt_logprobs + 1) continue;
        entry.prompt_logprobs.push_back(step.prompt_logprobs[i]);
        ++entry.num_prompt_logprobs;
    }
}

void OutputProcessor::append_tokens(const SequenceStep& step, const StopDecision& decision,
                                    const Entry& entry, Continuation& continuation) {
    ContinuationOutput& pending = continuation.pending;
    for (int32_t i = 0; i < decision.num_accepted; ++i) {
        const int32_t id = step.token_ids[static_cast<size_t>(i)];
        pending.token_ids.push_back(id);
        if (!step.logprobs.empty()) {
            const SampledLogprobs& logprobs = step.logprobs[static_cast<size_t>(i)];
            continuation.sum_of_logprobs =
                continuation.sum_of_logprobs.value_or(0.0) + logprobs.chosen.logprob;
            if (!entry.hides_logprobs) pending.logprobs.push_back(logprobs);
        }
        ++continuation.num_tokens;
        continuation.has_pending = true;
        const bool ends_here = i + 1 == decision.num_accepted && decision.stop_token_id == id;
        if (ends_here && !entry.sampling.include_stop_in_output) continue;
        if (continuation.detokenizer) continuation.text += continuation.detokenizer->append(id);
    }
}

void OutputProcessor::match_stops(Entry& entry, Continuation& continuation, size_t searched,
                                  StopDecision& decision) {
    if (continuation.num_tokens < entry.sampling.min_tokens) return;
    const auto match = entry.stops.find(continuation.text, searched);
    if (!match) return;
    continuation.text.resize(entry.sampling.include_stop_in_output ? match->end : match->begin);
    continuation.pending.stop_string = entry.sampling.stop[match->index];
    decision.finish = FinishReason::stop;
}

void OutputProcessor::end(Entry& entry, Continuation& continuation, FinishReason reason) {
    continuation.finished = true;
    continuation.pending.finish_reason = reason;
    continuation.pending.cumulative_logprob = continuation.sum_of_logprobs;
    continuation.has_pending = true;
    emit(continuation, continuation.text.size());
    --entry.num_active;
}

void OutputProcessor::emit(Continuation& continuation, size_t safe_length) {
    if (safe_length <= continuation.emitted) return;
    continuation.pending.text.append(continuation.text, continuation.emitted,
                                     safe_length - continuation.emitted);
    continuation.emitted = safe_length;
    continuation.has_pending = true;
}

void OutputProcessor::finish_beams(RequestId request, std::span<const BeamHypothesis> hypotheses) {
    const auto found = entries_.find(request);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    for (size_t i = 0; i < entry.continuations.size(); ++i) {
        Continuation& continuation = entry.continuations[i];
        if (continuation.finished) continue;
        const BeamHypothesis& hypothesis = hypotheses[i];
        for (size_t token = 0; token < hypothesis.token_ids.size(); ++token) {
            const int32_t id = hypothesis.token_ids[token];
            const bool ends_here = hypothesis.ended && token + 1 == hypothesis.token_ids.size();
            if (ends_here) continuation.pending.stop_token_id = id;
            if (ends_here && !entry.sampling.include_stop_in_output) continue;
            if (continuation.detokenizer) continuation.text += continuation.detokenizer->append(id);
        }
        if (continuation.detokenizer) continuation.text += continuation.detokenizer->finish();
        continuation.pending.token_ids = hypothesis.token_ids;
        continuation.num_tokens = static_cast<int32_t>(hypothesis.token_ids.size());
        continuation.sum_of_logprobs = hypothesis.score;
        end(entry, continuation, hypothesis.ended ? FinishReason::stop : FinishReason::length);
    }
}

bool OutputProcessor::streams(const Entry& entry) {
    return entry.sampling.num_sequences() == entry.sampling.n && !entry.sampling.use_beam_search;
}

// Of all continuations the n with the highest sum of logprobs, those that failed last.
void OutputProcessor::keep_best(Entry& entry) {
    // No sum of logprobs at all stands below every sum, and a failure below that.
    const auto score = [](const Continuation& continuation) {
        const bool failed = continuation.pending.finish_reason == FinishReason::error;
        return std::pair(!failed, continuation.sum_of_logprobs);
    };
    std::ranges::stable_sort(entry.continuations,
                             [&](const Continuation& one, const Continuation& other) {
                                 return score(one) > score(other);
                             });
    for (size_t i = static_cast<size_t>(entry.sampling.n); i < entry.continuations.size(); ++i) {
        entry.continuations[i].has_pending = false;
    }
}

void OutputProcessor::finish(SequenceId sequence, FinishReason reason, std::optional<Fault> fault) {
    Entry* entry = nullptr;
    Continuation* continuation = find(sequence, entry);
    if (continuation == nullptr || continuation->finished) return;
    if (continuation->detokenizer) continuation->text += continuation->detokenizer->finish();
    continuation->pending.fault = std::move(fault);
    end(*entry, *continuation, reason);
}

std::optional<RequestOutput> OutputProcessor::take(RequestId request, double now_s) {
    const auto found = entries_.find(request);
    if (found == entries_.end()) return std::nullopt;
    Entry& entry = found->second;
    const bool shows_continuations = streams(entry) || entry.num_active == 0;
    if (!streams(entry) && shows_continuations) keep_best(entry);
    RequestOutput output;
    output.request_id = request;
    output.num_prompt_tokens = entry.num_prompt_tokens;
    output.num_cached_tokens = entry.num_cached_tokens;
    output.num_computed_prompt_tokens = entry.num_computed_prompt_tokens;
    output.times = entry.times;
    output.times.output_s = now_s;
    for (size_t index = 0; index < entry.continuations.size(); ++index) {
        Continuation& continuation = entry.continuations[index];
        if (!continuation.has_pending || !shows_continuations) continue;
        continuation.pending.index = static_cast<int32_t>(index);
        continuation.pending.num_generated_tokens = continuation.num_tokens;
        output.continuations.push_back(std::exchange(continuation.pending, {}));
        continuation.has_pending = false;
    }
    if (shows_continuations) output.prompt_logprobs = std::exchange(entry.prompt_logprobs, {});
    output.embedding = std::exchange(entry.embedding, {});
    const bool has_progress = std::exchange(entry.has_progress, false);
    if (output.continuations.empty() && output.prompt_logprobs.empty() && !has_progress) {
        return std::nullopt;
    }
    output.finished = entry.num_active == 0;
    if (output.finished) {
        output.times.finished_s = now_s;
        for (const Continuation& continuation : entry.continuations)
            places_.erase(continuation.sequence);
        entries_.erase(found);
    }
    return output;
}

std::vector<SequenceId> OutputProcessor::active(RequestId request) const {
    std::vector<SequenceId> sequences;
    const auto found = entries_.find(request);
    if (found == entries_.end()) return sequences;
    for (const Continuation& continuation : found->second.continuations) {
        if (!continuation.finished) sequences.push_back(continuation.sequence);
    }
    return sequences;
}

std::optional<RequestId> OutputProcessor::request_of(SequenceId sequence) const {
    const auto place = places_.find(sequence);
    if (place == places_.end()) return std::nullopt;
    return place->second.first;
}

}  // namespace nvllm
