// Requests in and out: adding, committing, cancelling. How a plan is made is in planning.cc.
#include "lib/schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/error.h"
#include "lib/schedule/stop_check.h"

namespace nvllm {

Scheduler::Scheduler(const SchedulerConfig& config, CacheManager& cache)
    : config_(config),
      policy_(find_policy(config.policy)),
      cache_(cache),
      waiting_(policy_),
      step_time_({.target_ms = config.step_time_target_ms,
                  .most_tokens = config.max_num_batched_tokens,
                  // A prompt that is not cut must find a step that has room for it.
                  .min_tokens =
                      config.enable_chunked_prefill ? config.max_num_seqs : config.max_model_len}) {
    config_.check();
}

void Scheduler::observe(StepObservation step) {
    if (config_.step_time_target_ms > 0.0) look_at_cache(step);
    step_time_.observe(step);
    preemption_costs_.observe(step);
}

Result<std::vector<SequenceId>> Scheduler::add(const Request& request) {
    if (std::optional<Fault> fault = why_never(config_, cache_, request)) return *std::move(fault);
    auto shared = std::make_shared<ScheduledRequest>();
    if (!requests_.try_emplace(request.id, shared).second) {
        return Fault{ErrorKind::bad_data,
                     fmt::format("request {} is under way already", request.id)};
    }
    shared->request = request;
    shared->request.prompt_token_ids = {};
    shared->first = shared->leader = next_sequence_;
    shared->num_active = request.sampling.num_sequences();
    const int32_t length =
        longest_length(config_, static_cast<int32_t>(request.prompt_token_ids.size()), request);
    shared->rope_choice = rope_choice(config_, length, request);
    const CacheKeyExtras extras{request.cache_salt, request.adapter, request.media_keys,
                                shared->rope_choice};
    std::vector<SequenceId> ids;
    for (int32_t index = 0; index < request.sampling.num_sequences(); ++index) {
        const SequenceId id = next_sequence_++;
        auto sequence = std::make_unique<ScheduledSequence>(
            ScheduledSequence{.sequence = Sequence::waiting(request, id, index),
                              .cache = SequenceBlocks(cache_, extras, id),
                              .request = shared,
                              .candidates = {},
                              .untold_tokens = {},
                              .lease_end_s = {}});
        sequence->sequence.longest_length = length;
        sequence->sequence.turn = next_turn_++;
        // Beams but the first come out of forks.
        if (index == 0 || !request.sampling.use_beam_search) {
            cache_.set_reuse_hint(sequence->cache, sequence->sequence.token_ids);
            waiting_.add(*sequence, now_s_);
        }
        sequences_.emplace(id, std::move(sequence));
        ids.push_back(id);
    }
    if (request.sampling.use_beam_search) begin_beams(*shared);
    return ids;
}

const Scheduler::InFlight& Scheduler::oldest_plan(const StepResult& result) const {
    NVLLM_CHECK(!in_flight_.empty(), "no plan is under way");
    const InFlight& plan = in_flight_.front();
    NVLLM_CHECK(result.plan_number == plan.number, "results come in the order of the plans");
    NVLLM_CHECK(result.sequences.size() == plan.entries.size(),
                "a result has one step for each entry");
    return plan;
}

std::vector<StopDecision> Scheduler::check_stop(const StepResult& result) const {
    const InFlight& plan = oldest_plan(result);
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
                                    config_.max_model_len, step.token_ids);
        }
    }
    return decisions;
}

std::vector<SequenceId> Scheduler::commit(const StepResult& result,
                                          const std::vector<StopDecision>& decisions,
                                          double now_s) {
    forget_retired();
    now_s_ = now_s;
    NVLLM_CHECK(decisions.size() == oldest_plan(result).entries.size(),
                "one verdict for each entry");
    const InFlight plan = std::move(in_flight_.front());
    in_flight_.pop_front();
    cache_.plan_committed(plan.number);
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        advance(plan.entries[i], result.sequences[i], decisions[i]);
    }
    for (ScheduledSequence* sequence : cancelled_) {
        if (sequence->sequence.state == SequenceState::finished) continue;
        finish(*sequence, FinishReason::cancelled);
    }
    cancelled_.clear();
    leave_running();
    return take_finished();
}

void Scheduler::advance(const PlannedEntry& entry, const SequenceStep& step,
                        const StopDecision& decision) {
    ScheduledSequence& scheduled = *entry.sequence;
    Sequence& sequence = scheduled.sequence;
    --scheduled.num_plans;
    NVLLM_CHECK(step.sequence == sequence.id && decision.sequence == sequence.id,
                "results and verdicts stand in the order of the plan's entries");
    const size_t num_accepted = static_cast<size_t>(decision.num_accepted);
    NVLLM_CHECK(num_accepted <= step.token_ids.size(), "more tokens are accepted than came");
    // Finished under an earlier plan, or about to be: what came out is nobody's any more.
    if (sequence.state == SequenceState::finished || scheduled.cancelled) return;
    if (decision.finish == FinishReason::error) {
        finish(scheduled, FinishReason::error);
        // A search that lost a beam is over.
        if (scheduled.request->beams != nullptr) cancel_all(*scheduled.request);
        return;
    }
    NVLLM_CHECK(decision.finish || (num_accepted > 0) == (entry.output == OutputKind::sample),
                "a sequence that goes on has a token just when it was to choose one");
    sequence.commit(entry.count, std::span(step.token_ids).first(num_accepted), now_s_);
    cache_.commit(scheduled.cache, sequence.token_ids, sequence.num_computed);
    if (sequence.num_computed >= sequence.num_prompt_tokens)
        scheduled.request->prompt_computed = true;
    if (decision.finish) {
        finish(scheduled, *decision.finish);
        return;
    }
    if (scheduled.disconnect_reason != DisconnectReason::none && sequence.num_in_flight == 0)
        depart(scheduled);
    if (entry.output == OutputKind::candidates) take_candidates(scheduled, step);
}

bool Scheduler::ranks_first(const ScheduledSequence& scheduled) const {
    return std::ranges::none_of(running_, [&](const ScheduledSequence* other) {
        return other->sequence.state == SequenceState::running &&
               ranks_before(policy_, other->sequence, scheduled.sequence, now_s_);
    });
}

// What was put off until nothing is in flight.
void Scheduler::depart(ScheduledSequence& scheduled) {
    switch (std::exchange(scheduled.disconnect_reason, DisconnectReason::none)) {
        case DisconnectReason::none:
            return;
        case DisconnectReason::preemption:
            // Those that ranked before it may have finished meanwhile.
            if (!ranks_first(scheduled)) preempt(scheduled);
            return;
        case DisconnectReason::pause:
            pause(scheduled);
            return;
    }
}

// For want of blocks. Leaves `running_` to be tidied by leave_running().
void Scheduler::preempt(ScheduledSequence& scheduled) {
    const bool queued = scheduled.sequence.state == SequenceState::paused;
    if (queued) waiting_.remove(scheduled);
    somebody_left_ = true;
    scheduled.disconnect_reason = DisconnectReason::none;
    if (!should_swap(scheduled) || !swap_out(scheduled)) recompute(scheduled);
    if (std::exchange(scheduled.told, false)) removed_.push_back(scheduled.sequence.id);
    scheduled.untold_tokens.clear();
    waiting_.add(scheduled, now_s_);
    ++counters_.preemptions;
}

bool Scheduler::should_swap(const ScheduledSequence& scheduled) const {
    if (scheduled.request->beams != nullptr)
        return false;                                    // shared blocks would come back as copies
    if (reads_early_positions(scheduled)) return false;  // the worker forgets what it gathered
    if (config_.preemption_mode != PreemptionMode::automatic) {
        return config_.preemption_mode == PreemptionMode::swap;
    }
    uint64_t bytes = 0;
    for (int32_t group = 0; group < cache_.num_groups(); ++group) {
        const auto place = static_cast<size_t>(group);
        const uint64_t each = place < config_.block_bytes.size() ? config_.block_bytes[place] : 0;
        bytes += each * static_cast<uint64_t>(scheduled.cache.table(group).num_held());
    }
    return preemption_costs_.swap_is_faster(bytes, scheduled.sequence.num_computed);
}

// False when host memory has no room, or nothing is computed yet.
bool Scheduler::swap_out(ScheduledSequence& scheduled) {
    if (scheduled.sequence.num_computed == 0) return false;
    if (!cache_.swap_out(scheduled.cache, scheduled.sequence.num_computed, swaps_out_))
        return false;
    scheduled.sequence.swap_out(now_s_);
    ++counters_.swaps_out;
    return true;
}

void Scheduler::recompute(ScheduledSequence& scheduled) {
    scheduled.num_computed_before = scheduled.sequence.num_computed;
    scheduled.sequence.preempt(now_s_);
    wait_without_blocks(scheduled);
}

// Leaves `running_` to be tidied by leave_running().
void Scheduler::pause(ScheduledSequence& scheduled) {
    somebody_left_ = true;
    scheduled.sequence.pause(now_s_);
    scheduled.sequence.turn = next_turn_++;
    waiting_.add(scheduled, now_s_);
    ++counters_.pauses;
}

// Leaves `running_` to be tidied by leave_running().
void Scheduler::finish(ScheduledSequence& scheduled, FinishReason reason) {
    somebody_left_ = true;
    const SequenceState state = scheduled.sequence.state;
    if (std::exchange(scheduled.told, false)) removed_.push_back(scheduled.sequence.id);
    if (state != SequenceState::running) waiting_.remove(scheduled);
    end_lease(scheduled);
    scheduled.sequence.finish(reason, now_s_);
    if (reason == FinishReason::error) {
        cache_.discard(scheduled.cache);
    } else {
        cache_.free(scheduled.cache);
    }
    ScheduledRequest& request = *scheduled.request;
    --request.num_active;
    if (request.num_active == 0) {
        std::erase(searching_, &request);
        std::erase(held_, &request);
        requests_.erase(request.request.id);
    } else if (request.leader == scheduled.sequence.id) {
        choose_next_leader(request);
    }
    finished_.push_back(scheduled.sequence.id);
    retired_.push_back(&scheduled);
}

// The first living continuation, which is the one that waits first.
void Scheduler::choose_next_leader(ScheduledRequest& request) {
    const SequenceId end =
        request.first + static_cast<SequenceId>(request.request.sampling.num_sequences());
    for (SequenceId id = request.first; id < end; ++id) {
        const ScheduledSequence* candidate = lookup(id);
        if (candidate == nullptr || candidate->sequence.state == SequenceState::finished) continue;
        request.leader = id;
        return;
    }
}

std::vector<SequenceId> Scheduler::cancel(RequestId request) {
    const auto found = requests_.find(request);
    if (found == requests_.end()) return {};
    const std::shared_ptr<ScheduledRequest> kept = found->second;
    cancel_all(*kept);
    leave_running();
    return take_finished();
}

void Scheduler::cancel_all(const ScheduledRequest& request) {
    const SequenceId end =
        request.first + static_cast<SequenceId>(request.request.sampling.num_sequences());
    for (SequenceId id = request.first; id < end; ++id) {
        if (ScheduledSequence* sequence = lookup(id)) cancel(*sequence);
    }
}

std::vector<SequenceId> Scheduler::cancel_sequence(SequenceId sequence) {
    if (ScheduledSequence* scheduled = lookup(sequence)) cancel(*scheduled);
    leave_running();
    return take_finished();
}

void Scheduler::cancel(ScheduledSequence& scheduled) {
    if (scheduled.sequence.state == SequenceState::finished || scheduled.cancelled) return;
    if (scheduled.num_plans == 0) {
        finish(scheduled, FinishReason::cancelled);
    } else {
        scheduled.cancelled = true;
        cancelled_.push_back(&scheduled);
    }
}

std::vector<SequenceId> Scheduler::reset_worker() {
    for (const InFlight& plan : in_flight_) {
        for (const PlannedEntry& entry : plan.entries) entry.sequence->num_plans = 0;
    }
    in_flight_.clear();
    cache_.plan_committed(next_plan_ - 1);
    end_leases(std::numeric_limits<double>::infinity());
    for (ScheduledSequence* sequence : running_) {
        if (sequence->cancelled) {
            finish(*sequence, FinishReason::cancelled);
        } else {
            somebody_left_ = true;
            sequence->disconnect_reason = DisconnectReason::none;
            recompute(*sequence);
            waiting_.add(*sequence, now_s_);
        }
    }
    leave_running();
    const std::vector<ScheduledSequence*> queued(waiting_.all().begin(), waiting_.all().end());
    for (ScheduledSequence* sequence : queued) {
        if (sequence->sequence.state == SequenceState::waiting) continue;
        waiting_.remove(*sequence);
        recompute(*sequence);
        waiting_.add(*sequence, now_s_);
    }
    cancelled_.clear();
    removed_.clear();
    swaps_out_.clear();
    copies_.clear();
    moves_.clear();
    table_changes_.clear();
    for (auto& [id, sequence] : sequences_) {
        cache_.free(sequence->cache);
        sequence->told = false;
        sequence->untold_tokens.clear();
    }
    cache_.clear();
    for (ScheduledSequence* sequence : waiting_.all()) {
        cache_.set_reuse_hint(sequence->cache, sequence->sequence.token_ids);
    }
    // The prompts' blocks are gone too: one continuation of each request computes them again.
    for (auto& [id, request] : requests_) {
        request->prompt_computed = false;
        choose_next_leader(*request);
    }
    ++counters_.worker_resets;
    return take_finished();
}

std::vector<SequenceId> Scheduler::take_finished() { return std::exchange(finished_, {}); }

// Those that an uncommitted plan still names stay.
void Scheduler::forget_retired() {
    std::erase_if(retired_, [this](const ScheduledSequence* sequence) {
        if (sequence->num_plans > 0) return false;
        sequences_.erase(sequence->sequence.id);
        return true;
    });
}

void Scheduler::leave_running() {
    if (!std::exchange(somebody_left_, false)) return;
    std::erase_if(running_, [](const ScheduledSequence* sequence) {
        return sequence->sequence.state != SequenceState::running;
    });
}

ScheduledSequence* Scheduler::lookup(SequenceId sequence) const {
    const auto found = sequences_.find(sequence);
    return found == sequences_.end() ? nullptr : found->second.get();
}

const Sequence* Scheduler::find(SequenceId sequence) const {
    const ScheduledSequence* scheduled = lookup(sequence);
    return scheduled == nullptr ? nullptr : &scheduled->sequence;
}

SchedulerStats Scheduler::stats() const {
    SchedulerStats stats = counters_;
    stats.num_running = static_cast<int32_t>(running_.size());
    stats.num_waiting = static_cast<int32_t>(waiting_.size());
    // The queue may be long: it is looked through only when there can be any.
    const bool any = queue_may_hold_blocks() || counters_.swaps_out > 0;
    for (const ScheduledSequence* scheduled :
         any ? waiting_.all() : std::span<ScheduledSequence* const>()) {
        stats.num_paused += scheduled->sequence.state == SequenceState::paused;
        stats.num_swapped += scheduled->sequence.state == SequenceState::swapped;
    }
    stats.num_awaiting = static_cast<int32_t>(leased_.size());
    stats.token_budget = step_time_.budget();
    return stats;
}

}  // namespace nvllm
