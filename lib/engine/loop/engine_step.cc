// A step of the engine: planned, computed, judged, committed, emitted; and what follows when it
// fails.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "lib/base/fault_points.h"
#include "lib/base/log.h"
#include "lib/engine/loop/engine_loop.h"

namespace nvllm {

namespace {

// Looking for fragmentation goes through all blocks: not often, and the rarer the longer it takes.
constexpr double kBetweenLooksS = 1.0;
constexpr double kLookShare = 0.001;  // of the engine thread's time at most
// Workers that somebody else killed, none of which came to finish a step, before what they computed
// is suspected all the same: it may be what the system kills for want of memory.
constexpr int kMaxKillsInARow = 16;

}  // namespace

bool Engine::Loop::can_step() const {
    return recovery_->ready() && !dead_ &&
           (scheduler_->has_work() || !resizes_.empty() || !under_way_.empty());
}

// One plan is committed, and the next may be under way by then.
bool Engine::Loop::step() {
    if (under_way_.empty() && !begin_step()) return false;
    if (!under_way_.empty() && may_plan_ahead()) begin_step();
    if (!under_way_.empty()) finish_step();
    if (faults_->takes_reload()) reload_weights();
    return true;
}

PlanLimits Engine::Loop::limits() {
    return faults_->limits([this](SequenceId id) {
        const Sequence* sequence = scheduler_->find(id);
        return sequence != nullptr && sequence->state != SequenceState::finished;
    });
}

// What has to happen between two steps, or is suspected of a failed one, waits for the step.
bool Engine::Loop::may_plan_ahead() {
    return executor_->takes_two_plans() && under_way_.size() == 1 && resizes_.empty() &&
           limits() == PlanLimits{};
}

bool Engine::Loop::begin_step() {
    const Clock::time_point begin = Clock::now();
    if (under_way_.empty()) resize();
    std::optional<BatchPlan> plan = scheduler_->next(now_s(), limits());
    if (!plan) return false;
    UnderWay step{std::move(*plan), {}, begin, std::nullopt};
    step.record = begin_record(step.plan);
    step.record.began_s = std::chrono::duration<double>(begin - started_).count();
    if (hand_over(step)) {
        under_way_.push_back(std::move(step));
    } else {
        conclude(step, std::nullopt);
    }
    return true;
}

void Engine::Loop::finish_step() {
    UnderWay step = std::move(under_way_.front());
    under_way_.pop_front();
    const std::optional<StepResult> result = await_result(step);
    conclude(step, result);
}

void Engine::Loop::conclude(UnderWay& step, const std::optional<StepResult>& result) {
    StepRecord& record = step.record;
    if (result) {
        record.swapped_bytes = result->swapped_bytes;
        record.swap_ms = result->swap_ms;
        record.device = result->device;
        device_counts_ += result->device;
        try {
            commit(*result, record);
        } catch (const std::exception& error) {
            fail_step(step.plan, Fault{ErrorKind::internal, error.what()});
        }
    }
    // Of two steps under way the second begins when the first is over.
    const Clock::time_point end = Clock::now();
    const Clock::time_point begin = std::max(step.began, last_concluded_);
    record.step_ms = std::chrono::duration<double, std::milli>(end - begin).count();
    last_concluded_ = end;
    if (result) observe(record);
    report(record);
}

StepRecord Engine::Loop::begin_record(const BatchPlan& plan) {
    StepRecord record;
    record.plan_number = plan.number;
    record.num_sequences = static_cast<int32_t>(plan.entries.size());
    record.num_tokens = plan.num_tokens();
    record.num_prefill_tokens = plan.num_prefill_tokens();
    for (const AddedSequence& added : plan.added) {
        const Sequence* sequence = scheduler_->find(added.sequence);
        output_->admitted(added.sequence, sequence->num_cached_tokens.value_or(0), now_s());
    }
    for (const PlanEntry& entry : plan.entries) {
        if (entry.count > 1) output_->planned(entry.sequence, entry.first + entry.count);
    }
    note_comings_and_goings(plan, record);
    return record;
}

// What the worker is to forget though it is not over gave way to others; beams that are only put
// back do not count as preempted.
void Engine::Loop::note_comings_and_goings(const BatchPlan& plan, StepRecord& record) const {
    const auto note = [&](SequenceId sequence, std::vector<RequestId>& requests) {
        const auto request = output_->request_of(sequence);
        if (request && (requests.empty() || requests.back() != *request)) {
            requests.push_back(*request);
        }
    };
    for (const AddedSequence& added : plan.added) note(added.sequence, record.try_admit);
    for (const SequenceId removed : plan.removed) {
        const Sequence* sequence = scheduler_->find(removed);
        if (sequence == nullptr || sequence->state == SequenceState::finished) continue;
        if (sequence->num_preemptions > 0) note(removed, record.preempted);
    }
}

void Engine::Loop::look_for_fragmentation() {
    const double begin_s = now_s();
    if (begin_s < next_look_s_) return;
    fragmentation_ =
        fault_point("engine.fragmentation").not_a_number ? 1.0 : cache_->fragmentation();
    const double end_s = now_s();
    next_look_s_ = end_s + std::max(kBetweenLooksS, (end_s - begin_s) / kLookShare);
}

bool Engine::Loop::hand_over(UnderWay& step) {
    return attempt(step.plan, [&] {
        fault_point("engine.step");
        heartbeat_.tick(EnginePhase::computing);
        if (executor_->takes_two_plans()) {
            executor_->begin(step.plan);
        } else {
            step.result = executor_->execute(step.plan);
        }
        heartbeat_.tick(EnginePhase::planning);
    });
}

std::optional<StepResult> Engine::Loop::await_result(UnderWay& step) {
    std::optional<StepResult> result;
    attempt(step.plan, [&] {
        heartbeat_.tick(EnginePhase::computing);
        result = step.result ? std::move(*step.result) : executor_->finish();
        heartbeat_.tick(EnginePhase::planning);
        recovery_->note_step();
        kills_in_a_row_ = 0;
        drop_what_nobody_gets(*result);
        faults_->note_done(*result);
    });
    return result;
}

// Of sequences that finished under the plan before.
void Engine::Loop::drop_what_nobody_gets(StepResult& result) const {
    for (SequenceStep& step : result.sequences) {
        const Sequence* sequence = scheduler_->find(step.sequence);
        if (sequence != nullptr && sequence->state != SequenceState::finished) continue;
        SequenceStep nothing;
        nothing.sequence = step.sequence;
        step = std::move(nothing);
    }
}

template <typename Work>
bool Engine::Loop::attempt(const BatchPlan& plan, Work&& work) {
    try {
        work();
        return true;
    } catch (const WorkerDied& lost) {
        replace_worker(lost.what());
        if (lost.killed_by_others() && ++kills_in_a_row_ <= kMaxKillsInARow) {
            reset_sequences();
            return false;
        }
        try_again(plan, Fault{ErrorKind::internal,
                              fmt::format("{} steps of this request ended the worker, the last one "
                                          "with nothing beside it: {}",
                                          kMaxFailedSteps, lost.what()),
                              "", "worker_lost"});
    } catch (const std::bad_alloc&) {
        forget_sequences();
        note_fault("out of memory in a step");
        faults_->note_out_of_memory();
        try_again(plan, Fault{ErrorKind::unavailable,
                              fmt::format("out of memory {} times in a step of this request",
                                          kMaxFailedSteps),
                              "", "out_of_memory"});
    } catch (const std::exception& error) {
        forget_sequences();
        note_fault(fmt::format("a step failed: {}", error.what()));
        try_again(plan, Fault{ErrorKind::internal, error.what()});
    }
    return false;
}

void Engine::Loop::reset_sequences() {
    under_way_.clear();
    scheduler_->reset_worker();
}

void Engine::Loop::commit(const StepResult& result, StepRecord& record) {
    std::vector<StopDecision> decisions = scheduler_->check_stop(result);
    const double now = now_s();
    std::vector<RequestId> requests;
    for (size_t i = 0; i < decisions.size(); ++i) {
        output_->check_stop(result.sequences[i], decisions[i], now);
        const auto request = output_->request_of(decisions[i].sequence);
        if (request && (requests.empty() || requests.back() != *request))
            requests.push_back(*request);
    }
    record.num_finished = static_cast<int32_t>(scheduler_->commit(result, decisions, now).size());
    for (const BeamResult& beams : scheduler_->take_beam_results()) {
        output_->finish_beams(beams.request, beams.hypotheses);
    }
    for (const RequestId request : requests) emit(request);
}

// Tells the scheduler what the step took.
void Engine::Loop::observe(const StepRecord& record) {
    StepObservation step;
    step.step_ms = record.step_ms;
    step.num_tokens = record.num_tokens;
    step.num_prefill_tokens = record.num_prefill_tokens;
    step.swapped_bytes = record.swapped_bytes;
    step.swap_ms = record.swap_ms;
    scheduler_->observe(step);
}

void Engine::Loop::report(StepRecord& record) {
    const SchedulerStats scheduled = scheduler_->stats();
    record.num_waiting = scheduled.num_waiting;
    record.num_running = scheduled.num_running;
    record.num_paused = scheduled.num_paused;
    record.num_swapped = scheduled.num_swapped;
    record.num_preemptions = scheduled.preemptions;
    record.token_budget = scheduled.token_budget;
    if (step_listener) step_listener(record);
    if (snapshot_listener && record.plan_number == snapshot_step) {
        snapshot_listener(take_snapshot(SnapshotDetail::full));
    }
}

void Engine::Loop::emit(RequestId request) {
    if (std::optional<RequestOutput> output = output_->take(request, now_s()))
        deliver(std::move(*output));
}

void Engine::Loop::deliver(RequestOutput&& output) {
    const auto listener = listeners_.find(output.request_id);
    if (listener == listeners_.end()) return;
    const bool finished = output.finished;
    listener->second(std::move(output));
    if (!finished) return;
    listeners_.erase(listener);
    ++num_delivered_;
}

// A worker may also end while it has nothing to do, or before it is ready.
void Engine::Loop::attend_worker() {
    if (dead_) return;
    if (recovery_->ready()) {
        if (can_step()) return;  // the step will find out
        if (const auto cause = executor_->check_alive()) {
            replace_worker(*cause);
            reset_sequences();
        }
        return;
    }
    if (recovery_->attend(Clock::now())) {
        faults_->counts.worker_restarts += !std::exchange(reloading_, false);
        log_debug("the worker is ready again");
    }
    if (recovery_->failed()) {
        give_up(fmt::format("the worker cannot be started: {}", recovery_->start_fault()));
    } else if (recovery_->num_failed_starts() > num_failed_starts_told_) {
        num_failed_starts_told_ = recovery_->num_failed_starts();
        note_fault(fmt::format("the worker did not start, and is started once more: {}",
                               recovery_->start_fault()));
    }
}

// Whatever it was that failed, the worker starts again; sequences are the caller's affair.
void Engine::Loop::replace_worker(const std::string& cause) {
    if (is_shutting_down()) return;
    note_fault(fmt::format("the worker is gone, and starts again: {}", cause));
    recovery_->replace(Clock::now());
    publish_progress();
}

void Engine::Loop::forget_sequences() {
    try {
        executor_->forget();
    } catch (const WorkerDied& lost) {
        replace_worker(lost.what());
    }
}

// The worker knows nothing any more: everybody starts over from the tokens they have, but for those
// whose steps fail again and again.
void Engine::Loop::try_again(const BatchPlan& plan, const Fault& fault) {
    reset_sequences();
    for (const SequenceId sequence : faults_->note_failed(plan)) {
        if (const auto request = output_->request_of(sequence)) fail_request(*request, fault);
    }
}

// What came out of the step could not be used, which may be any of its sequences' fault.
void Engine::Loop::fail_step(const BatchPlan& plan, const Fault& fault) {
    note_fault(fmt::format("the outcome of a step could not be used: {}", fault.message));
    for (const PlanEntry& entry : plan.entries) {
        if (const auto request = output_->request_of(entry.sequence)) fail_request(*request, fault);
    }
    forget_sequences();
    reset_sequences();
}

void Engine::Loop::fail_request(RequestId request, const Fault& fault) {
    for (const SequenceId sequence : output_->active(request)) {
        output_->finish(sequence, FinishReason::error, fault);
    }
    scheduler_->cancel(request);
    emit(request);
}

void Engine::Loop::reload_weights() {
    note_fault("logits of several requests in a row were not numbers: the weights are read again");
    reset_sequences();
    reloading_ = true;
    recovery_->replace(Clock::now());
    publish_progress();
}

void Engine::Loop::give_up(const std::string& cause) {
    if (dead_) return;
    note_fault(cause);
    dead_ = Fault{ErrorKind::unavailable, fmt::format("engine dead: {}", cause), "", "engine_dead"};
    resizes_.clear();
    std::vector<RequestId> open;
    for (const auto& [request, listener] : listeners_) open.push_back(request);
    for (const RequestId request : open) {
        for (const SequenceId sequence : output_->active(request)) {
            output_->finish(sequence, FinishReason::error, *dead_);
        }
        emit(request);
    }
}

void Engine::Loop::note_fault(const std::string& cause) {
    log_warning(cause);
    const std::lock_guard lock(mutex_);
    health_.last_fault = cause;
}

}  // namespace nvllm
