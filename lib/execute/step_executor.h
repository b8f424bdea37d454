// The interface that carries out an engine's plans, in this process or in another one.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "kernels/error.h"
#include "lib/execute/worker_setup.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"

namespace nvllm {

// Plans in flight on a device: it computes one while the host prepares the next.
inline constexpr int kDevicePlansInFlight = 2;

// The worker ended, and its state is lost: what() says how it ended.
class WorkerDied : public std::runtime_error {
  public:
    // `killed_by_others`: its computation is not the cause.
    explicit WorkerDied(const std::string& how, bool killed_by_others = false)
        : std::runtime_error(how), killed_by_others_(killed_by_others) {}

    bool killed_by_others() const { return killed_by_others_; }

  private:
    bool killed_by_others_;
};

// Owned by the engine thread, which calls everything but for what says otherwise.
class StepExecutor {
  public:
    virtual ~StepExecutor() = default;

    // Starts a new worker, which replaces the current one. Throws Error when that fails.
    virtual void start() = 0;
    // The times of the worker that was started last, once it is ready; empty before. `wait`: blocks
    // until it is ready. Throws Error when it cannot be made, WorkerDied when it ended instead.
    virtual std::optional<WorkerReady> ready(bool wait) = 0;
    // Readable when the worker has become ready or has ended. Empty when there is no such
    // descriptor.
    virtual std::optional<int> readable_descriptor() const = 0;
    // How the worker ended while it computed nothing; empty while it runs.
    virtual std::optional<std::string> check_alive() = 0;

    // REQUIRES: the worker is ready; plans come in the order of their numbers and name only
    // sequences that were added. Throws WorkerDied when a fresh worker has to be started,
    // std::bad_alloc when memory did not suffice for this step, and another exception when the step
    // failed otherwise; after these two the caller must call forget().
    virtual StepResult execute(const BatchPlan& plan) = 0;
    // How many plans may be begun and not finished at one time.
    virtual int max_in_flight() const { return 1; }
    // execute() in two parts: finish() returns the result of the oldest plan in flight. REQUIRES:
    // max_in_flight() is more than 1 and is not exceeded. A plan may name tokens that plans in
    // flight before it choose. Both throw what execute() throws.
    virtual void begin(const BatchPlan&) { NVLLM_CHECK(false, "one plan is in flight at most"); }
    virtual StepResult finish() {
        NVLLM_CHECK(false, "one plan is in flight at most");
        return {};
    }
    // Forgets every sequence; the next plan adds the active ones. REQUIRES: the worker is ready.
    // Throws WorkerDied.
    virtual void forget() = 0;

    // No plan follows for a while: others need not wait for one.
    virtual void rest() {}

    // The process that computes. Any thread; empty while there is none.
    virtual std::optional<int> process_id() const = 0;
    // Ends the worker's process: the call that waits for it throws WorkerDied with `cause`. Any
    // thread. False when it cannot be ended without ending this process.
    virtual bool kill(const std::string& cause) = 0;
};

}  // namespace nvllm
