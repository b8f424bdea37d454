// What follows from a failed step, a lost worker or damaged weights: which sequences are retried,
// which requests fail, when the worker restarts, and when the engine gives up.
//
// Owned by the engine thread. A failed step leaves the scheduler as after the loss of the worker:
// every running sequence starts over from the tokens it has.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/engine/loop/engine_inbox.h"
#include "lib/engine/loop/engine_status.h"
#include "lib/engine/loop/health.h"
#include "lib/engine/loop/output_delivery.h"
#include "lib/engine/loop/pending_resizes.h"
#include "lib/engine/loop/recovery.h"
#include "lib/engine/loop/step_faults.h"
#include "lib/execute/step_executor.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {

// All outlive the handler.
struct FaultHandlerParts {
    StepExecutor& executor;
    Scheduler& scheduler;
    OutputDelivery& delivery;
    PendingResizes& resizes;
    EngineStatus& status;
    const EngineInbox& inbox;
};

class FaultHandler {
  public:
    // `max_tokens`: tokens of a step. `publish` is called when the state has changed in a step.
    FaultHandler(const FaultHandlerParts& parts, int32_t max_tokens, std::function<void()> publish);

    // The first start: blocks until the worker is ready, in pieces that `goes_on` may end. Nothing
    // when it did. Throws the error of the start.
    template <typename Wait>
    std::optional<WorkerReady> start_worker(const Wait& goes_on) {
        return recovery_.start_first(goes_on);
    }
    // Restarts a worker that has died or is starting, as far as there is something to do.
    // `is_busy`: a step follows, which notices a dead worker by itself.
    void check_worker(bool is_busy);
    bool worker_is_ready() const { return recovery_.ready(); }
    // When check_worker() has something to do without news from the executor; empty: never.
    std::optional<std::chrono::milliseconds> wake_after() const;

    // Runs a part of a step. False when it failed: then the plans in flight are void, the scheduler
    // has been reset, and sequences that failed too often have ended.
    template <typename Work>
    bool attempt(const BatchPlan& plan, Work&& work) {
        try {
            work();
            return true;
        } catch (...) {
            handle_failure(plan);
            return false;
        }
    }
    // A step was computed.
    void note_done(const StepResult& result);
    // The result of a step was unusable, which may be the fault of any of its sequences: their
    // requests fail. The plans in flight are void.
    void fail_step(const BatchPlan& plan, const Fault& fault);
    // Bounds of the next plan after a failed one.
    PlanLimits limits();
    // Restarts the worker if several sequences in a row had logits that are not numbers. True then:
    // the plans in flight are void.
    bool reload_damaged_weights();

    // Ends every request, and those that come later.
    void give_up(const std::string& cause);
    // Why no request is served any more; empty: requests are served.
    const std::optional<Fault>& dead() const { return dead_; }

    EngineState state() const;
    const FaultCounts& counts() const { return faults_.counts; }

  private:
    // REQUIRES: an exception is being handled. Throws it again if it is no std::exception.
    void handle_failure(const BatchPlan& plan);
    void handle_death(const BatchPlan& plan, const WorkerDied& death);
    void replace_worker(const std::string& cause);
    void check_start();
    void reset_executor();
    void retry(const BatchPlan& plan, const Fault& fault);
    void fail_request(RequestId request, const Fault& fault);
    void note_fault(const std::string& cause);

    FaultHandlerParts parts_;
    std::function<void()> publish_;
    Recovery recovery_;
    StepFaults faults_;
    int64_t num_failed_starts_noted_ = 0;
    int kills_in_a_row_ = 0;
    bool reloading_ = false;  // the worker restarts for its weights, not because one was lost
    std::optional<Fault> dead_;
};

}  // namespace nvllm
