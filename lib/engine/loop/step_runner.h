// Steps of the engine: planned, handed to the executor, committed, delivered. Owned by the engine
// thread.
//
// As many steps are in flight as the executor takes and the scheduler can plan ahead; they are
// committed in their order.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/engine/loop/engine_clock.h"
#include "lib/engine/loop/fault_handler.h"
#include "lib/engine/loop/output_delivery.h"
#include "lib/engine/loop/pending_resizes.h"
#include "lib/engine/loop/watchdog.h"
#include "lib/execute/step_executor.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {

// All outlive the runner.
struct StepRunnerParts {
    StepExecutor& executor;
    Scheduler& scheduler;
    OutputDelivery& delivery;
    PendingResizes& resizes;
    FaultHandler& faults;
    Heartbeat& heartbeat;
    const EngineClock& clock;
    int32_t replica = 0;  // for its records
};

class StepRunner {
  public:
    // `listener` is called after every step, also after one that failed.
    StepRunner(const StepRunnerParts& parts, std::function<void(const StepRecord&)> listener)
        : parts_(parts), listener_(std::move(listener)) {}

    // Whether there is work and a worker for it.
    bool can_step() const;
    // Commits one step, after steps were planned ahead of it if possible. False when nothing could
    // be planned.
    bool step();

    // Of all steps so far.
    const DeviceCounts& device_counts() const { return device_counts_; }

  private:
    using Clock = EngineClock::Clock;

    // A plan that was handed to the worker and is not committed.
    struct InFlight {
        BatchPlan plan;
        StepRecord record;
        Clock::time_point began;
        std::optional<StepResult> result;  // of an executor that takes one plan at a time
    };

    bool may_plan_ahead();
    // Plans, and hands the plan over; false when there was nothing to plan.
    bool begin_step();
    void finish_step();
    bool hand_over(InFlight& step);
    std::optional<StepResult> await_result(InFlight& step);
    void drop_finished(StepResult& result) const;
    // Commits the result of a step, if there is one, and reports the step.
    void conclude(InFlight& step, const std::optional<StepResult>& result);
    static void record_drafts(const BatchPlan& plan, const StepResult& result, StepRecord& record);
    void commit(const StepResult& result, StepRecord& record);
    void finish_refused(SequenceId id);
    void observe(const StepRecord& record);

    StepRecord begin_record(const BatchPlan& plan);
    void record_changes(const BatchPlan& plan, StepRecord& record) const;
    void report(StepRecord& record);

    StepRunnerParts parts_;
    std::function<void(const StepRecord&)> listener_;
    std::deque<InFlight> in_flight_;  // oldest first
    Clock::time_point last_concluded_;
    DeviceCounts device_counts_;
};

}  // namespace nvllm
