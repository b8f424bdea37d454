// A step of the engine: planned, computed, judged, committed, emitted; and what follows when it
// fails.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "lib/base/fault_points.h"
#include "lib/base/log.h"
#include "lib/engine/engine_loop.h"

namespace nvllm {

namespace {

// Looking for fragmentation goes through all blocks: not often, and the rarer the longer it takes.
constexpr double kBetweenLooksS = 1.0;
constexpr double kLookShare = 0.001;  // of the engine thread's time at most
// Workers that somebody else killed, none of which came to finish a step, before what they computed
// is suspected all the same: it may be what the system kills for want of memory.
constexpr int kMostKillsInARow = 16;

}  // namespace

bool Engine::Loop::can_step() const {
    return recovery_->ready() && !dead_ && (scheduler_->has_work() || !resizes_.empty());
}

bool Engine::Loop::step() {
    const Clock::time_point begin = Clock::now();
    resize();
    scheduler_->limit_plans(faults_->limits([this](SequenceId id) {
        const Sequence* sequence = scheduler_->find(id);
        return sequence != nullptr && sequence->state != SequenceState::finished;
    }));
    const std::optional<BatchPlan> plan = scheduler_->next(now_s());
    if (!plan) return false;
    StepRecord record = begin_record(*plan);
    record.began_s = std::chrono::duration<double>(begin - started_).count();
    const std::optional<StepResult> result = compute(*plan);
    if (result) {
        record.swapped_bytes = result->swapped_bytes;
        record.swap_ms = result->swap_ms;
        try {
            commit(*result, record);
        } catch (const std::exception& error) {
            fail_step(*plan, Fault{ErrorKind::internal, error.what()});
        }
    }
    record.step_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    if (result) observe(record);
    report(record);
    if (faults_->takes_reload()) reload_weights();
    return true;
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
    for (const AddedSequence& added : plan.added) note(added.sequence, record.let_in);
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

// Nothing when the step failed, which is dealt with then.
std::optional<StepResult> Engine::Loop::compute(const BatchPlan& plan) {
    try {
        fault_point("engine.step");
        heartbeat_.beat(EnginePhase::computing);
        StepResult result = executor_->execute(plan);
        heartbeat_.beat(EnginePhase::planning);
        recovery_->note_step();
        kills_in_a_row_ = 0;
        faults_->note_done(result);
        return result;
    } catch (const WorkerLost& lost) {
        replace_worker(lost.what());
        if (lost.killed_by_others() && ++kills_in_a_row_ <= kMostKillsInARow) {
            scheduler_->reset_worker();
            return std::nullopt;
        }
        try_again(plan, Fault{ErrorKind::internal,
                              fmt::format("{} steps of this request ended the worker, the last one "
                                          "with nothing beside it: {}",
                                          kMostFailedSteps, lost.what()),
                              "", "worker_lost"});
    } catch (const std::bad_alloc&) {
        forget_sequences();
        note_fault("out of memory in a step");
        faults_->note_out_of_memory();
        try_again(plan, Fault{ErrorKind::unavailable,
                              fmt::format("out of memory {} times in a step of this request",
                                          kMostFailedSteps),
                              "", "out_of_memory"});
    } catch (const std::exception& error) {
        forget_sequences();
        note_fault(fmt::format("a step failed: {}", error.what()));
        try_again(plan, Fault{ErrorKind::internal, error.what()});
    }
    return std::nullopt;
}

void Engine::Loop::commit(const StepResult& result, StepRecord& record) {
    std::vector<Verdict> verdicts = scheduler_->judge(result);
    const double now = now_s();
    std::vector<RequestId> requests;
    for (size_t i = 0; i < verdicts.size(); ++i) {
        output_->judge(result.sequences[i], verdicts[i], now);
        const auto request = output_->request_of(verdicts[i].sequence);
        if (request && (requests.empty() || requests.back() != *request))
            requests.push_back(*request);
    }
    record.num_finished = static_cast<int32_t>(scheduler_->commit(result, verdicts, now).size());
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
        if (const auto cause = executor_->find_lost()) {
            replace_worker(*cause);
            scheduler_->reset_worker();
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
    if (is_ending()) return;
    note_fault(fmt::format("the worker is gone, and starts again: {}", cause));
    recovery_->replace(Clock::now());
    publish_progress();
}

void Engine::Loop::forget_sequences() {
    try {
        executor_->forget();
    } catch (const WorkerLost& lost) {
        replace_worker(lost.what());
    }
}

// The worker knows nothing any more: everybody starts over from the tokens they have, but for those
// whose steps fail again and again.
void Engine::Loop::try_again(const BatchPlan& plan, const Fault& fault) {
    scheduler_->reset_worker();
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
    scheduler_->reset_worker();
}

void Engine::Loop::fail_request(RequestId request, const Fault& fault) {
    for (const SequenceId sequence : output_->living(request)) {
        output_->finish(sequence, FinishReason::error, fault);
    }
    scheduler_->cancel(request);
    emit(request);
}

void Engine::Loop::reload_weights() {
    note_fault("logits of several requests in a row were not numbers: the weights are read again");
    scheduler_->reset_worker();
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
        for (const SequenceId sequence : output_->living(request)) {
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
