// Text of each choice, and what of it may be shown.
#include "lib/engine/output_processor.h"

#include <algorithm>

namespace nvllm {

OutputProcessor::OutputProcessor(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

void OutputProcessor::add(const Request& request, std::span<const SequenceId> sequences) {
    Entry entry{.sampling = request.sampling,
                .stops = StopMatcher(request.sampling.stop),
                .choices = {},
                .num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size()),
                .num_active = static_cast<int32_t>(sequences.size()),
                .num_cached_tokens = 0,
                .adapter_tier = {},
                .hides_logprobs = request.hides_logprobs,
                .wants_progress = request.wants_progress,
                .times = {},
                .prompt_logprobs = {},
                .embedding = {}};
    entry.times.arrival_s = request.arrival_s;
    for (size_t index = 0; index < sequences.size(); ++index) {
        Choice choice;
        choice.sequence = sequences[index];
        if (tokenizer_ != nullptr && !request.pooling) {
            choice.detokenizer.emplace(tokenizer_, request.sampling.skip_special_tokens,
                                       request.prompt_token_ids, request.kept_special_tokens);
        }
        entry.choices.push_back(std::move(choice));
        places_.emplace(sequences[index], std::pair(request.id, index));
    }
    entries_.emplace(request.id, std::move(entry));
}

OutputProcessor::Choice* OutputProcessor::find(SequenceId sequence, Entry*& entry) {
    const auto place = places_.find(sequence);
    if (place == places_.end()) return nullptr;
    entry = &entries_.at(place->second.first);
    return &entry->choices[place->second.second];
}

void OutputProcessor::admitted(const Sequence& sequence, double now_s) {
    Entry* entry = nullptr;
    if (find(sequence.id, entry) == nullptr || entry->times.first_scheduled_s) return;
    entry->times.first_scheduled_s = now_s;
    entry->num_cached_tokens = sequence.num_cached_tokens.value_or(0);
    entry->num_without_state = sequence.num_without_state;
    entry->adapter_tier = sequence.adapter_tier;
    note_progress(*entry, entry->num_cached_tokens);
}

void OutputProcessor::planned(SequenceId sequence, int32_t end) {
    Entry* entry = nullptr;
    if (find(sequence, entry) != nullptr) note_progress(*entry, end);
}

// Of several choices the one that is furthest counts; what was generated is no prompt.
void OutputProcessor::note_progress(Entry& entry, int32_t num_computed_prompt_tokens) {
    if (!entry.wants_progress || num_computed_prompt_tokens > entry.num_prompt_tokens) return;
    entry.num_computed_prompt_tokens =
        std::max(entry.num_computed_prompt_tokens, num_computed_prompt_tokens);
    entry.has_progress = true;
}

void OutputProcessor::check_stop(const SequenceStep& step, StopDecision& decision, double now_s) {
    Entry* entry = nullptr;
    Choice* choice = find(step.sequence, entry);
    if (choice == nullptr || choice->finished) return;
    if ((decision.num_accepted > 0 || !step.candidates.empty()) && !entry->times.first_token_s) {
        entry->times.first_token_s = now_s;
    }
    if (!step.fault) take_prompt_logprobs(step, *entry);
    if (!step.embedding.empty()) entry->embedding = step.embedding;
    append_tokens(step, decision, *entry, *choice);
    if (decision.finish) {
        choice->pending.fault = step.fault;
        choice->pending.stop_token_id = decision.stop_token_id;
        end(*entry, *choice, *decision.finish);
    } else {
        emit(*choice, entry->stops.safe_length(choice->text));
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

// A step may have several tokens: those after the one that ends a stop string do not count.
void OutputProcessor::append_tokens(const SequenceStep& step, StopDecision& decision, Entry& entry,
                                    Choice& choice) {
    size_t searched = choice.text.size();
    for (int32_t i = 0; i < decision.num_accepted; ++i) {
        const bool is_last = i + 1 == decision.num_accepted;
        const bool ends_here =
            is_last && decision.stop_token_id == step.token_ids[static_cast<size_t>(i)];
        append_token(step, static_cast<size_t>(i),
                     !ends_here || entry.sampling.include_stop_in_output, entry, choice);
        if (is_last) break;
        if (match_stops(entry, choice, searched, decision)) {
            decision.num_accepted = i + 1;
            decision.stop_token_id.reset();
            return;
        }
        searched = choice.text.size();
    }
    if (decision.finish && choice.detokenizer) choice.text += choice.detokenizer->finish();
    match_stops(entry, choice, searched, decision);
}

void OutputProcessor::append_token(const SequenceStep& step, size_t index, bool shows_text,
                                   const Entry& entry, Choice& choice) {
    ContinuationOutput& pending = choice.pending;
    const int32_t id = step.token_ids[index];
    pending.token_ids.push_back(id);
    if (!step.logprobs.empty()) {
        const SampledLogprobs& logprobs = step.logprobs[index];
        choice.sum_of_logprobs = choice.sum_of_logprobs.value_or(0.0) + logprobs.chosen.logprob;
        if (!entry.hides_logprobs) pending.logprobs.push_back(logprobs);
    }
    ++choice.num_tokens;
    choice.has_pending = true;
    if (shows_text && choice.detokenizer) choice.text += choice.detokenizer->append(id);
}

bool OutputProcessor::match_stops(Entry& entry, Choice& choice, size_t searched,
                                  StopDecision& decision) {
    if (choice.num_tokens < entry.sampling.min_tokens) return false;
    const auto match = entry.stops.find(choice.text, searched);
    if (!match) return false;
    choice.text.resize(entry.sampling.include_stop_in_output ? match->end : match->begin);
    choice.pending.stop_string = entry.sampling.stop[match->index];
    decision.finish = FinishReason::stop;
    return true;
}

void OutputProcessor::end(Entry& entry, Choice& choice, FinishReason reason) {
    choice.finished = true;
    choice.pending.finish_reason = reason;
    choice.pending.cumulative_logprob = choice.sum_of_logprobs;
    choice.has_pending = true;
    emit(choice, choice.text.size());
    --entry.num_active;
}

void OutputProcessor::emit(Choice& choice, size_t safe_length) {
    if (safe_length <= choice.emitted) return;
    choice.pending.text.append(choice.text, choice.emitted, safe_length - choice.emitted);
    choice.emitted = safe_length;
    choice.has_pending = true;
}

void OutputProcessor::finish_beams(RequestId request, std::span<const BeamHypothesis> hypotheses) {
    const auto found = entries_.find(request);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    for (size_t i = 0; i < entry.choices.size(); ++i) {
        Choice& choice = entry.choices[i];
        if (choice.finished) continue;
        const BeamHypothesis& hypothesis = hypotheses[i];
        for (size_t token = 0; token < hypothesis.token_ids.size(); ++token) {
            const int32_t id = hypothesis.token_ids[token];
            const bool ends_here = hypothesis.ended && token + 1 == hypothesis.token_ids.size();
            if (ends_here) choice.pending.stop_token_id = id;
            if (ends_here && !entry.sampling.include_stop_in_output) continue;
            if (choice.detokenizer) choice.text += choice.detokenizer->append(id);
        }
        if (choice.detokenizer) choice.text += choice.detokenizer->finish();
        choice.pending.token_ids = hypothesis.token_ids;
        choice.num_tokens = static_cast<int32_t>(hypothesis.token_ids.size());
        choice.sum_of_logprobs = hypothesis.score;
        end(entry, choice, hypothesis.ended ? FinishReason::stop : FinishReason::length);
    }
}

bool OutputProcessor::streams(const Entry& entry) {
    return entry.sampling.num_sequences() == entry.sampling.n && !entry.sampling.use_beam_search;
}

// Of all choices the n with the highest sum of logprobs, those that failed last.
void OutputProcessor::keep_best(Entry& entry) {
    // No sum of logprobs at all stands below every sum, and a failure below that.
    const auto score = [](const Choice& choice) {
        const bool failed = choice.pending.finish_reason == FinishReason::error;
        return std::pair(!failed, choice.sum_of_logprobs);
    };
    std::ranges::stable_sort(entry.choices, [&](const Choice& one, const Choice& other) {
        return score(one) > score(other);
    });
    for (size_t i = static_cast<size_t>(entry.sampling.n); i < entry.choices.size(); ++i) {
        entry.choices[i].has_pending = false;
    }
}

void OutputProcessor::finish(SequenceId sequence, FinishReason reason, std::optional<Fault> fault) {
    Entry* entry = nullptr;
    Choice* choice = find(sequence, entry);
    if (choice == nullptr || choice->finished) return;
    if (choice->detokenizer) choice->text += choice->detokenizer->finish();
    choice->pending.fault = std::move(fault);
    end(*entry, *choice, reason);
}

std::optional<RequestOutput> OutputProcessor::take(RequestId request, double now_s) {
    const auto found = entries_.find(request);
    if (found == entries_.end()) return std::nullopt;
    Entry& entry = found->second;
    const bool shows_choices = streams(entry) || entry.num_active == 0;
    if (!streams(entry) && shows_choices) keep_best(entry);
    RequestOutput output;
    output.request_id = request;
    output.num_prompt_tokens = entry.num_prompt_tokens;
    output.num_cached_tokens = entry.num_cached_tokens;
    output.num_without_state = entry.num_without_state;
    output.adapter_tier = entry.adapter_tier;
    output.num_computed_prompt_tokens = entry.num_computed_prompt_tokens;
    output.times = entry.times;
    output.times.output_s = now_s;
    for (size_t index = 0; index < entry.choices.size(); ++index) {
        Choice& choice = entry.choices[index];
        if (!choice.has_pending || !shows_choices) continue;
        choice.pending.index = static_cast<int32_t>(index);
        choice.pending.num_generated_tokens = choice.num_tokens;
        output.continuations.push_back(std::exchange(choice.pending, {}));
        choice.has_pending = false;
    }
    if (shows_choices) output.prompt_logprobs = std::exchange(entry.prompt_logprobs, {});
    output.embedding = std::exchange(entry.embedding, {});
    const bool has_progress = std::exchange(entry.has_progress, false);
    if (output.continuations.empty() && output.prompt_logprobs.empty() && !has_progress) {
        return std::nullopt;
    }
    output.finished = entry.num_active == 0;
    if (output.finished) {
        output.times.finished_s = now_s;
        for (const Choice& choice : entry.choices) places_.erase(choice.sequence);
        entries_.erase(found);
    }
    return output;
}

std::vector<SequenceId> OutputProcessor::active(RequestId request) const {
    std::vector<SequenceId> sequences;
    const auto found = entries_.find(request);
    if (found == entries_.end()) return sequences;
    for (const Choice& choice : found->second.choices) {
        if (!choice.finished) sequences.push_back(choice.sequence);
    }
    return sequences;
}

std::optional<RequestId> OutputProcessor::request_of(SequenceId sequence) const {
    const auto place = places_.find(sequence);
    if (place == places_.end()) return std::nullopt;
    return place->second.first;
}

}  // namespace nvllm
