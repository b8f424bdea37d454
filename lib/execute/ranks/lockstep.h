// Replicas whose ranks share out experts compute their steps together: each layer of experts is an
// exchange of all ranks.
//
// A step begins when no replica that took part in the last one is still planning; ranks of replicas
// that have no plan take part without tokens.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/execute/remote_executor.h"
#include "lib/execute/step_executor.h"

namespace nvllm {

// Of all replicas. Threads: any.
class Lockstep {
  public:
    explicit Lockstep(int32_t num_replicas) : members_(static_cast<size_t>(num_replicas)) {}

  private:
    friend class LockstepExecutor;

    enum class State : uint8_t {
        resting,    // has no plan, and ranks that take part
        absent,     // alike, without ranks that could
        planning,   // has just computed: a plan may follow at once
        ready,      // has a plan
        computing,  // it
    };
    struct Member {
        State state = State::absent;
        RemoteExecutor* executor = nullptr;
    };

    // No replica is about to plan, or starts its ranks, or computes. REQUIRES, as all below: the
    // mutex is held.
    bool may_begin() const;
    // All that are ready compute, and those that rest take part.
    void begin();
    void finish();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Member> members_;
    int32_t num_computing_ = 0;
};

// One replica's.
class LockstepExecutor : public StepExecutor {
  public:
    // The executor's setup shares with the other replicas of `lockstep`.
    LockstepExecutor(std::shared_ptr<Lockstep> lockstep, int32_t replica,
                     std::unique_ptr<RemoteExecutor> executor);
    ~LockstepExecutor() override;

    void start() override;
    std::optional<WorkerReady> ready(bool wait) override;
    std::optional<int> readable_descriptor() const override;
    std::optional<std::string> check_alive() override;
    StepResult execute(const BatchPlan& plan) override;
    void forget() override;
    void rest() override;
    std::optional<int> process_id() const override { return executor_->process_id(); }
    bool kill(const std::string& cause) override { return executor_->kill(cause); }

  private:
    using State = Lockstep::State;

    // REQUIRES: the mutex is held.
    void become(State state);
    // Ends the replica's part of a step.
    void leave(State state);

    std::shared_ptr<Lockstep> lockstep_;
    Lockstep::Member& own_;
    std::unique_ptr<RemoteExecutor> executor_;
};

}  // namespace nvllm
