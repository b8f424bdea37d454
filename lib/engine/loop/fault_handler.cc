// Each kind of failure: its log line, what is retried, and the fault of what is not.
#include "lib/engine/loop/fault_handler.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "lib/base/log.h"

namespace nvllm {
namespace {

using Clock = Recovery::Clock;

// Workers killed from outside in a row, none of which finished a step, before the computation is
// suspected all the same: the system may kill workers because memory is short.
constexpr int kMaxKillsInARow = 16;

}  // namespace

FaultHandler::FaultHandler(const FaultHandlerParts& parts, int32_t max_tokens,
                           std::function<void()> publish)
    : parts_(parts), publish_(std::move(publish)), recovery_(parts.executor), faults_(max_tokens) {}

// A worker may also die while it is idle, or before it is ready.
void FaultHandler::check_worker(bool is_busy) {
    if (dead_) return;
    if (!recovery_.ready()) return check_start();
    if (is_busy) return;
    if (const auto cause = parts_.executor.check_alive()) {
        replace_worker(*cause);
        parts_.scheduler.reset_worker();
    }
}

void FaultHandler::check_start() {
    if (recovery_.attend(Clock::now())) {
        faults_.counts.worker_restarts += !std::exchange(reloading_, false);
        log_debug("the worker is ready again");
    }
    if (recovery_.failed()) {
        give_up(fmt::format("the worker cannot be started: {}", recovery_.start_fault()));
    } else if (recovery_.num_failed_starts() > num_failed_starts_noted_) {
        num_failed_starts_noted_ = recovery_.num_failed_starts();
        note_fault(fmt::format("the worker did not start, and is started once more: {}",
                               recovery_.start_fault()));
    }
}

std::optional<std::chrono::milliseconds> FaultHandler::wake_after() const {
    return recovery_.wake_after(Clock::now());
}

void FaultHandler::handle_failure(const BatchPlan& plan) {
    try {
        throw;
    } catch (const WorkerDied& death) {
        handle_death(plan, death);
    } catch (const std::bad_alloc&) {
        reset_executor();
        note_fault("out of memory in a step");
        faults_.note_out_of_memory();
        retry(plan, Fault{ErrorKind::unavailable,
                          fmt::format("out of memory {} times in a step of this request",
                                      kMaxFailedSteps),
                          "", "out_of_memory"});
    } catch (const std::exception& error) {
        reset_executor();
        note_fault(fmt::format("a step failed: {}", error.what()));
        retry(plan, Fault{ErrorKind::internal, error.what()});
    }
}

void FaultHandler::handle_death(const BatchPlan& plan, const WorkerDied& death) {
    replace_worker(death.what());
    if (death.killed_by_others() && ++kills_in_a_row_ <= kMaxKillsInARow) {
        parts_.scheduler.reset_worker();
        return;
    }
    retry(plan, Fault{ErrorKind::internal,
                      fmt::format("{} steps of this request ended the worker, the last one with "
                                  "nothing beside it: {}",
                                  kMaxFailedSteps, death.what()),
                      "", "worker_lost"});
}

// The sequences are the caller's concern.
void FaultHandler::replace_worker(const std::string& cause) {
    if (parts_.inbox.is_shut_down()) return;
    note_fault(fmt::format("the worker is gone, and starts again: {}", cause));
    recovery_.replace(Clock::now());
    publish_();
}

void FaultHandler::reset_executor() {
    try {
        parts_.executor.forget();
    } catch (const WorkerDied& death) {
        replace_worker(death.what());
    }
}

void FaultHandler::retry(const BatchPlan& plan, const Fault& fault) {
    parts_.scheduler.reset_worker();
    for (const SequenceId sequence : faults_.note_failed(plan)) {
        if (const auto request = parts_.delivery.outputs().request_of(sequence)) {
            fail_request(*request, fault);
        }
    }
}

void FaultHandler::note_done(const StepResult& result) {
    recovery_.note_step();
    kills_in_a_row_ = 0;
    faults_.note_done(result);
}

void FaultHandler::fail_step(const BatchPlan& plan, const Fault& fault) {
    note_fault(fmt::format("the outcome of a step could not be used: {}", fault.message));
    for (const PlanEntry& entry : plan.entries) {
        if (const auto request = parts_.delivery.outputs().request_of(entry.sequence)) {
            fail_request(*request, fault);
        }
    }
    reset_executor();
    parts_.scheduler.reset_worker();
}

void FaultHandler::fail_request(RequestId request, const Fault& fault) {
    parts_.delivery.finish(request, FinishReason::error, fault);
    parts_.scheduler.cancel(request);
    parts_.delivery.emit(request);
}

PlanLimits FaultHandler::limits() {
    return faults_.limits([this](SequenceId id) {
        const Sequence* sequence = parts_.scheduler.find(id);
        return sequence != nullptr && sequence->state != SequenceState::finished;
    });
}

bool FaultHandler::reload_damaged_weights() {
    if (!faults_.takes_reload()) return false;
    note_fault("logits of several requests in a row were not numbers: the weights are read again");
    parts_.scheduler.reset_worker();
    reloading_ = true;
    recovery_.replace(Clock::now());
    publish_();
    return true;
}

void FaultHandler::give_up(const std::string& cause) {
    if (dead_) return;
    note_fault(cause);
    dead_ = Fault{ErrorKind::unavailable, fmt::format("engine dead: {}", cause), "", "engine_dead"};
    parts_.resizes.clear();
    parts_.delivery.finish_all(*dead_);
}

EngineState FaultHandler::state() const {
    if (dead_) return EngineState::failed;
    return recovery_.ready() ? EngineState::running : EngineState::recovering;
}

void FaultHandler::note_fault(const std::string& cause) {
    log_warning(cause);
    parts_.status.note_fault(cause);
}

}  // namespace nvllm
