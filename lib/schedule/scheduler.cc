// Adding, planning, committing and cancelling, by the parts in planning/.
#include "lib/schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/planning/answer_masks.h"
#include "lib/schedule/planning/request_limits.h"
#include "lib/schedule/stop_check.h"

namespace nvllm {
namespace {

StepTimeConfig step_time_config(const SchedulerConfig& config) {
    return {
        .target_ms = config.step_time_target_ms,
        .most_tokens = config.max_num_batched_tokens,
        // A prompt that is not cut must find a step that is long enough for it.
        .min_tokens = config.enable_chunked_prefill ? config.max_num_seqs : config.max_model_len};
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config, CacheManager& cache, DraftProposer* proposer)
    : context_{.config = config, .policy = find_policy(config.policy), .cache = cache},
      waiting_(context_.policy),
      running_(config.max_num_seqs),
      step_time_(step_time_config(config)),
      remote_(context_, requests_, waiting_, running_, plans_, update_),
      preemptor_(context_, waiting_, running_, update_),
      backpressure_(requests_, waiting_, running_, preemptor_),
      finisher_(context_, requests_, waiting_, running_, update_, remote_, backpressure_),
      beams_(context_, requests_, waiting_, running_, update_, preemptor_, finisher_),
      admission_(context_, waiting_, running_, preemptor_, backpressure_, update_),
      slicer_(context_, waiting_, running_, preemptor_),
      drafts_(context_, running_, proposer),
      composer_(context_, waiting_, running_, plans_, update_,
                {preemptor_, slicer_, admission_, beams_, drafts_}),
      resizer_(context_, requests_, update_, remote_, preemptor_) {
    context_.config.check();
}

void Scheduler::observe(StepObservation step) {
    if (context_.config.step_time_target_ms > 0.0) resizer_.collect_cache_stats(step);
    step_time_.observe(step);
    preemptor_.observe(step);
    drafts_.observe(step);
}

Result<std::vector<SequenceId>> Scheduler::add(const Request& request) {
    const SchedulerConfig& config = context_.config;
    if (std::optional<Fault> fault = why_never(config, context_.cache, request)) {
        return *std::move(fault);
    }
    NVLLM_CHECK(request.constraint == nullptr || !request.sampling.use_beam_search,
                "beams are held to nothing");
    NVLLM_CHECK(request.adapter.id == 0 || !request.adapter.key.empty(),
                "the cache distinguishes adapters by their keys");
    const std::shared_ptr<ScheduledRequest> shared = requests_.add_request(request);
    if (shared == nullptr) {
        return Fault{ErrorKind::bad_data,
                     fmt::format("request {} is under way already", request.id)};
    }
    const int32_t length =
        longest_length(config, static_cast<int32_t>(request.prompt_token_ids.size()), request);
    shared->rope_choice = rope_choice(config, length, request);
    if (request.adapter.id != 0) {
        shared->adapter_tier = context_.adapters.tier_of(request.adapter.id);
    }
    context_.adapters.add(request.adapter);
    std::vector<SequenceId> ids;
    for (int32_t index = 0; index < request.sampling.num_sequences(); ++index) {
        ids.push_back(shared->first + static_cast<SequenceId>(index));
        add_sequence(shared, request, index, length);
    }
    if (request.sampling.use_beam_search) beams_.begin(*shared);
    return ids;
}

void Scheduler::add_sequence(const std::shared_ptr<ScheduledRequest>& shared,
                             const Request& request, int32_t index, int32_t longest_length) {
    const SequenceId id = requests_.next_id();
    const CacheKeyExtras extras = cache_key_extras(context_.config, request);
    ScheduledSequence& added = requests_.add_sequence(std::make_unique<ScheduledSequence>(
        ScheduledSequence{.sequence = Sequence::waiting(request, id, index),
                          .cache = SequenceBlocks(context_.cache, extras, id),
                          .request = shared,
                          .candidates = {},
                          .unsent_tokens = {},
                          .lease_end_s = {},
                          .drafts = {}}));
    if (request.constraint) added.constraint = request.constraint->begin();
    added.sequence.longest_length = longest_length;
    added.sequence.adapter_tier = shared->adapter_tier;
    added.sequence.turn = waiting_.next_turn();
    // Beams other than the first begin as forks.
    if (index > 0 && request.sampling.use_beam_search) return;
    context_.cache.set_reuse_hint(added.cache, added.sequence.token_ids);
    waiting_.add(added, context_.now_s);
}

std::optional<BatchPlan> Scheduler::next(double now_s, const PlanLimits& limits) {
    requests_.forget_retired();
    context_.now_s = now_s;
    remote_.expire(now_s);
    if (!composer_.may_plan()) return std::nullopt;
    backpressure_.release_slots();
    if (!has_work() && !update_.has_moves()) return std::nullopt;
    resizer_.defragment();
    waiting_.sort(now_s);
    if (!limits.alone) slicer_.pause_for_waiting();
    slicer_.resume_paused(true);
    std::optional<BatchPlan> plan = composer_.compose(step_time_.budget(), limits);
    // Leased blocks are free again when the lease ends: that is no mistake of ours.
    const bool stalled = !plan && plans_.empty() && remote_.leased().empty();
    context_.counters.stalled_steps += stalled ? 1 : 0;
    return plan;
}

std::vector<StopDecision> Scheduler::check_stop(const StepResult& result) const {
    const PlanInFlight& plan = plans_.oldest_of(result);
    std::vector<StopDecision> decisions;
    decisions.reserve(plan.entries.size());
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const ScheduledSequence& scheduled = *plan.entries[i].sequence;
        const SequenceStep& step = result.sequences[i];
        StopDecision& decision = decisions.emplace_back();
        decision.sequence = scheduled.sequence.id;
        if (scheduled.sequence.state == SequenceState::finished) {
            decision.finish = scheduled.sequence.finish_reason;
        } else if (scheduled.cancelled) {
            decision.finish = FinishReason::cancelled;
        } else if (step.fault) {
            decision.finish = FinishReason::error;
        } else if (plan.entries[i].output == OutputKind::pooled) {
            decision.finish = FinishReason::stop;
        } else {
            decision = check_tokens(scheduled.sequence, scheduled.request->request,
                                    context_.config.max_model_len, step.token_ids);
        }
    }
    return decisions;
}

std::vector<SequenceId> Scheduler::commit(const StepResult& result,
                                          const std::vector<StopDecision>& decisions,
                                          double now_s) {
    requests_.forget_retired();
    context_.now_s = now_s;
    NVLLM_CHECK(decisions.size() == plans_.oldest_of(result).entries.size(),
                "one decision for each entry");
    PlanInFlight plan = plans_.take_oldest();
    context_.cache.plan_committed(plan.number);
    context_.adapters.take(result.adapters);
    context_.cache.disk_tier().take_events(result.disk);
    if (!plan.drafts.empty()) drafts_.roll_back(plan, result, decisions);
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        advance(plan.entries[i], result.sequences[i], decisions[i]);
    }
    if (!result.extras.empty()) drafts_.take_next_drafts(plan, result);
    finisher_.finish_cancelled();
    running_.remove_left();
    return finisher_.take_finished();
}

void Scheduler::advance(const PlannedEntry& entry, const SequenceStep& step,
                        const StopDecision& decision) {
    ScheduledSequence& scheduled = *entry.sequence;
    Sequence& sequence = scheduled.sequence;
    --scheduled.num_plans;
    NVLLM_CHECK(step.sequence == sequence.id && decision.sequence == sequence.id,
                "results and decisions are in the order of the plan's entries");
    const size_t num_accepted = static_cast<size_t>(decision.num_accepted);
    NVLLM_CHECK(num_accepted <= step.token_ids.size(), "more tokens are accepted than came");
    // It finished under an earlier plan, or finishes with this commit: its tokens are dropped.
    if (sequence.state == SequenceState::finished || scheduled.cancelled) return;
    if (decision.finish == FinishReason::error) {
        finisher_.finish(scheduled, FinishReason::error);
        // A search that lost a beam ends.
        if (scheduled.is_beam()) finisher_.cancel_all(*scheduled.request);
        return;
    }
    NVLLM_CHECK(decision.finish || (num_accepted > 0) == (entry.output == OutputKind::sample),
                "a sequence that continues has a token if and only if its entry samples");
    sequence.commit(entry.count, std::span(step.token_ids).first(num_accepted), context_.now_s);
    context_.cache.commit(scheduled.cache, sequence.token_ids, sequence.num_computed);
    if (sequence.num_computed >= sequence.num_prompt_tokens) {
        scheduled.request->prompt_computed = true;
    }
    if (decision.finish) {
        finisher_.finish(scheduled, *decision.finish);
        drafts_.learn(scheduled);
        return;
    }
    if (!advance_constraint(scheduled, std::span(step.token_ids).first(num_accepted))) {
        finisher_.finish(scheduled, FinishReason::error);
        return;
    }
    if (scheduled.removal != PendingRemoval::none && sequence.num_in_flight == 0) {
        preemptor_.remove(scheduled);
    }
    if (entry.output == OutputKind::candidates) beams_.take_candidates(scheduled, step);
}

bool Scheduler::resize_cache(std::span<const int32_t> num_blocks, double now_s) {
    context_.now_s = now_s;
    return resizer_.resize(num_blocks);
}

std::vector<SequenceId> Scheduler::cancel(RequestId request, std::optional<int32_t> index) {
    const std::shared_ptr<ScheduledRequest> found = requests_.find_request(request);
    if (found == nullptr) return {};
    if (!index) {
        finisher_.cancel_all(*found);
    } else if (*index >= 0 && *index < found->request.sampling.num_sequences()) {
        ScheduledSequence* sequence =
            requests_.find(found->first + static_cast<SequenceId>(*index));
        if (sequence != nullptr) finisher_.cancel(*sequence);
    }
    running_.remove_left();
    return finisher_.take_finished();
}

std::vector<SequenceId> Scheduler::reset_worker() {
    plans_.forget_all();
    context_.cache.plan_committed(plans_.last_number());
    remote_.expire(std::numeric_limits<double>::infinity());
    requeue_all();
    finisher_.forget_cancelled();
    update_.clear();
    context_.adapters.forget_worker();
    for (const auto& [id, sequence] : requests_.sequences()) {
        context_.cache.free(sequence->cache);
        sequence->is_registered = false;
        sequence->unsent_tokens.clear();
    }
    context_.cache.clear();
    for (ScheduledSequence* sequence : waiting_.all()) {
        context_.cache.set_reuse_hint(sequence->cache, sequence->sequence.token_ids);
    }
    requests_.forget_computed_prompts();
    ++context_.counters.worker_resets;
    return finisher_.take_finished();
}

// Every active sequence waits, without blocks. Cancelled ones finish.
void Scheduler::requeue_all() {
    for (ScheduledSequence* sequence : running_.all()) {
        if (sequence->cancelled) {
            finisher_.finish(*sequence, FinishReason::cancelled);
        } else {
            running_.mark_left();
            sequence->removal = PendingRemoval::none;
            preemptor_.recompute(*sequence);
            waiting_.add(*sequence, context_.now_s);
        }
    }
    running_.remove_left();
    const std::vector<ScheduledSequence*> queued(waiting_.all().begin(), waiting_.all().end());
    for (ScheduledSequence* sequence : queued) {
        if (sequence->sequence.state == SequenceState::waiting) continue;
        waiting_.remove(*sequence);
        preemptor_.recompute(*sequence);
        waiting_.add(*sequence, context_.now_s);
    }
}

const Sequence* Scheduler::find(SequenceId sequence) const {
    const ScheduledSequence* scheduled = requests_.find(sequence);
    return scheduled == nullptr ? nullptr : &scheduled->sequence;
}

SchedulerStats Scheduler::stats() const {
    SchedulerStats stats = context_.counters;
    stats.num_running = running_.size();
    stats.num_waiting = static_cast<int32_t>(waiting_.size());
    // The queue may be long: it is searched only if it had such sequences.
    if (context_.queue_may_hold_blocks() || stats.swaps_out > 0) {
        for (const ScheduledSequence* scheduled : waiting_.all()) {
            stats.num_paused += scheduled->sequence.state == SequenceState::paused;
            stats.num_swapped += scheduled->sequence.state == SequenceState::swapped;
        }
    }
    stats.num_awaiting = static_cast<int32_t>(remote_.leased().size());
    stats.token_budget = step_time_.budget();
    stats.adapters = context_.adapters.stats();
    return stats;
}

}  // namespace nvllm
