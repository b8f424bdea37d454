// A step from its plan to its record.
#include "lib/engine/loop/step_runner.h"

#include <algorithm>
#include <utility>

#include "lib/base/fault_points.h"

namespace nvllm {
namespace {

// Adds the request of the sequence, unless it is the last one.
void add_request(const OutputProcessor& outputs, SequenceId sequence,
                 std::vector<RequestId>& requests) {
    const auto request = outputs.request_of(sequence);
    if (request && (requests.empty() || requests.back() != *request)) {
        requests.push_back(*request);
    }
}

bool has_finished(const Scheduler& scheduler, SequenceId id) {
    const Sequence* sequence = scheduler.find(id);
    return sequence == nullptr || sequence->state == SequenceState::finished;
}

}  // namespace

bool StepRunner::can_step() const {
    return parts_.faults.worker_is_ready() && !parts_.faults.dead() &&
           (parts_.scheduler.has_work() || !parts_.resizes.empty() || !in_flight_.empty());
}

bool StepRunner::step() {
    if (in_flight_.empty() && !begin_step()) return false;
    while (may_plan_ahead() && begin_step()) {
    }
    if (!in_flight_.empty()) finish_step();
    if (parts_.faults.reload_damaged_weights()) in_flight_.clear();
    return true;
}

// A resize, and a plan with bounds after a failed step, wait until no step is in flight.
bool StepRunner::may_plan_ahead() {
    return !in_flight_.empty() && std::ssize(in_flight_) < parts_.executor.max_in_flight() &&
           parts_.resizes.empty() && parts_.faults.limits() == PlanLimits{};
}

bool StepRunner::begin_step() {
    const Clock::time_point begin = Clock::now();
    if (in_flight_.empty()) parts_.resizes.run(parts_.scheduler, parts_.clock.now_s());
    std::optional<BatchPlan> plan =
        parts_.scheduler.next(parts_.clock.now_s(), parts_.faults.limits());
    if (!plan) return false;
    InFlight step{std::move(*plan), {}, begin, std::nullopt};
    step.record = begin_record(step.plan);
    step.record.began_s = parts_.clock.seconds_at(begin);
    if (hand_over(step)) {
        in_flight_.push_back(std::move(step));
    } else {
        conclude(step, std::nullopt);
    }
    return true;
}

void StepRunner::finish_step() {
    InFlight step = std::move(in_flight_.front());
    in_flight_.pop_front();
    const std::optional<StepResult> result = await_result(step);
    conclude(step, result);
}

bool StepRunner::hand_over(InFlight& step) {
    const bool done = parts_.faults.attempt(step.plan, [&] {
        fault_point("engine.step");
        parts_.heartbeat.tick(EnginePhase::computing);
        if (parts_.executor.max_in_flight() > 1) {
            parts_.executor.begin(step.plan);
        } else {
            step.result = parts_.executor.execute(step.plan);
        }
        parts_.heartbeat.tick(EnginePhase::planning);
    });
    if (!done) in_flight_.clear();
    return done;
}

std::optional<StepResult> StepRunner::await_result(InFlight& step) {
    std::optional<StepResult> result;
    const bool done = parts_.faults.attempt(step.plan, [&] {
        parts_.heartbeat.tick(EnginePhase::computing);
        result = step.result ? std::move(*step.result) : parts_.executor.finish();
        parts_.heartbeat.tick(EnginePhase::planning);
        drop_finished(*result);
        parts_.faults.note_done(*result);
    });
    if (!done) in_flight_.clear();
    return result;
}

// Tokens of sequences that finished under an earlier plan.
void StepRunner::drop_finished(StepResult& result) const {
    for (SequenceStep& step : result.sequences) {
        if (!has_finished(parts_.scheduler, step.sequence)) continue;
        SequenceStep nothing;
        nothing.sequence = step.sequence;
        step = std::move(nothing);
    }
}

void StepRunner::conclude(InFlight& step, const std::optional<StepResult>& result) {
    StepRecord& record = step.record;
    if (result) {
        record.swapped_bytes = result->swapped_bytes;
        record.swap_ms = result->swap_ms;
        record.draft_ms = result->draft_ms;
        record.num_ranks = result->num_ranks;
        record.busy_ms = result->busy_ms;
        record.rank_bytes = result->rank_bytes;
        record.dropped_experts = result->dropped_experts;
        record.expert_load = result->expert_load;
        for (const StepExtras& extras : result->extras) {
            record.num_proposed += extras.next_drafts.size();
        }
        record.device = result->device;
        device_counts_ += result->device;
        record_drafts(step.plan, *result, record);
        try {
            commit(*result, record);
        } catch (const std::exception& error) {
            parts_.faults.fail_step(step.plan, Fault{ErrorKind::internal, error.what()});
            in_flight_.clear();
        }
    }
    // Of two steps in flight the second begins when the first ends.
    const Clock::time_point end = Clock::now();
    const Clock::time_point begin = std::max(step.began, last_concluded_);
    record.step_ms = std::chrono::duration<double, std::milli>(end - begin).count();
    last_concluded_ = end;
    if (result) observe(record);
    report(record);
}

// Results have extras for all entries with drafts, as plans have.
void StepRunner::record_drafts(const BatchPlan& plan, const StepResult& result,
                               StepRecord& record) {
    for (const EntryExtras& planned : plan.extras) {
        if (planned.drafts.empty()) continue;
        VerifiedDrafts& verified = record.drafts.emplace_back();
        verified.sequence = plan.entries[planned.entry].sequence;
        verified.drafts = planned.drafts;
        const auto extras =
            std::ranges::lower_bound(result.extras, planned.entry, {}, &StepExtras::entry);
        if (extras == result.extras.end() || extras->entry != planned.entry) continue;
        verified.accepted_rows = extras->accepted_rows;
    }
}

void StepRunner::commit(const StepResult& result, StepRecord& record) {
    OutputProcessor& outputs = parts_.delivery.outputs();
    std::vector<StopDecision> decisions = parts_.scheduler.check_stop(result);
    const double now_s = parts_.clock.now_s();
    std::vector<RequestId> requests;
    for (size_t i = 0; i < decisions.size(); ++i) {
        outputs.check_stop(result.sequences[i], decisions[i], now_s);
        add_request(outputs, decisions[i].sequence, requests);
    }
    const auto finished = parts_.scheduler.commit(result, decisions, now_s);
    record.num_finished = static_cast<int32_t>(finished.size());
    for (const SequenceId id : finished) finish_refused(id);
    for (const BeamResult& beams : parts_.scheduler.take_beam_results()) {
        outputs.finish_beams(beams.request, beams.hypotheses);
    }
    for (const RequestId request : requests) parts_.delivery.emit(request);
}

// A sequence that was to go on, but whose constraint refused the chosen token. Of the others that
// finish the outputs know already.
void StepRunner::finish_refused(SequenceId id) {
    const Sequence* sequence = parts_.scheduler.find(id);
    if (sequence == nullptr || sequence->finish_reason != FinishReason::error) return;
    parts_.delivery.outputs().finish(
        id, FinishReason::error,
        Fault{ErrorKind::internal,
              "the answer left its grammar: a token was chosen that the "
              "grammar's mask allowed and its rules refuse"});
}

// The scheduler learns what the step took.
void StepRunner::observe(const StepRecord& record) {
    StepObservation step;
    step.step_ms = record.step_ms;
    step.num_tokens = record.num_tokens;
    step.num_prefill_tokens = record.num_prefill_tokens;
    step.num_draft_tokens = record.num_draft_tokens;
    step.swapped_bytes = record.swapped_bytes;
    step.swap_ms = record.swap_ms;
    step.num_proposed = record.num_proposed;
    step.draft_ms = record.draft_ms;
    parts_.scheduler.observe(step);
}

StepRecord StepRunner::begin_record(const BatchPlan& plan) {
    OutputProcessor& outputs = parts_.delivery.outputs();
    StepRecord record;
    record.replica = parts_.replica;
    record.plan_number = plan.number;
    record.num_sequences = static_cast<int32_t>(plan.entries.size());
    record.num_tokens = plan.num_tokens();
    record.num_prefill_tokens = plan.num_prefill_tokens();
    record.num_draft_tokens = plan.num_draft_tokens();
    for (const AddedSequence& added : plan.added) {
        const Sequence* sequence = parts_.scheduler.find(added.sequence);
        outputs.admitted(*sequence, parts_.clock.now_s());
    }
    for (const PlanEntry& entry : plan.entries) {
        if (entry.count > 1) outputs.planned(entry.sequence, entry.first + entry.count);
    }
    record_changes(plan, record);
    return record;
}

// A sequence that leaves the worker unfinished was preempted; a beam that is only released was not.
void StepRunner::record_changes(const BatchPlan& plan, StepRecord& record) const {
    const OutputProcessor& outputs = parts_.delivery.outputs();
    for (const AddedSequence& added : plan.added) {
        add_request(outputs, added.sequence, record.admitted);
    }
    for (const SequenceId removed : plan.removed) {
        if (has_finished(parts_.scheduler, removed)) continue;
        const Sequence* sequence = parts_.scheduler.find(removed);
        if (sequence->num_preemptions > 0) add_request(outputs, removed, record.preempted);
    }
}

void StepRunner::report(StepRecord& record) {
    const SchedulerStats scheduled = parts_.scheduler.stats();
    record.num_waiting = scheduled.num_waiting;
    record.num_running = scheduled.num_running;
    record.num_paused = scheduled.num_paused;
    record.num_swapped = scheduled.num_swapped;
    record.num_preemptions = scheduled.preemptions;
    record.token_budget = scheduled.token_budget;
    listener_(record);
}

}  // namespace nvllm
