// Who waits for whom.
#include "lib/execute/ranks/lockstep.h"

#include <algorithm>
#include <chrono>

namespace nvllm {
namespace {

// At whether ranks have ended that other replicas do not bring back.
constexpr std::chrono::milliseconds kBetweenLooks{50};

}  // namespace

bool Lockstep::may_begin() const {
    return num_computing_ == 0 && std::ranges::none_of(members_, [](const Member& member) {
               return member.state == State::planning || member.state == State::absent;
           });
}

// A replica whose ranks are lost finds out by itself, and so do the others, whose ranks end as
// well.
void Lockstep::begin() {
    for (Member& member : members_) {
        if (member.state == State::resting) {
            try {
                member.executor->begin_step_of_others();
            } catch (const WorkerDied&) {
                member.state = State::absent;
            }
        } else if (member.state == State::ready) {
            member.state = State::computing;
            ++num_computing_;
        }
    }
    changed_.notify_all();
}

void Lockstep::finish() {
    for (Member& member : members_) {
        if (member.executor == nullptr || member.state == State::absent) continue;
        try {
            member.executor->finish_step_of_others();
        } catch (const WorkerDied&) {
            member.state = State::absent;
        }
    }
    changed_.notify_all();
}

LockstepExecutor::LockstepExecutor(std::shared_ptr<Lockstep> lockstep, int32_t replica,
                                   std::unique_ptr<RemoteExecutor> executor)
    : lockstep_(std::move(lockstep)),
      own_(lockstep_->members_.at(static_cast<size_t>(replica))),
      executor_(std::move(executor)) {
    const std::lock_guard lock(lockstep_->mutex_);
    own_.executor = executor_.get();
}

LockstepExecutor::~LockstepExecutor() {
    const std::lock_guard lock(lockstep_->mutex_);
    own_.executor = nullptr;
    become(State::absent);
}

void LockstepExecutor::become(State state) {
    own_.state = state;
    lockstep_->changed_.notify_all();
}

void LockstepExecutor::start() {
    const std::lock_guard lock(lockstep_->mutex_);
    become(State::absent);
    executor_->start();
}

std::optional<WorkerReady> LockstepExecutor::ready(bool wait) {
    NVLLM_CHECK(!wait, "ranks of several replicas become ready together");
    const std::lock_guard lock(lockstep_->mutex_);
    std::optional<WorkerReady> ready = executor_->ready(false);
    if (ready && own_.state == State::absent) become(State::resting);
    return ready;
}

std::optional<int> LockstepExecutor::readable_descriptor() const {
    const std::lock_guard lock(lockstep_->mutex_);
    return executor_->readable_descriptor();
}

std::optional<std::string> LockstepExecutor::check_alive() {
    const std::lock_guard lock(lockstep_->mutex_);
    std::optional<std::string> end = executor_->check_alive();
    if (end) become(State::absent);
    return end;
}

StepResult LockstepExecutor::execute(const BatchPlan& plan) {
    {
        std::unique_lock lock(lockstep_->mutex_);
        become(State::ready);
        const auto can_go_on = [&] {
            return own_.state == State::computing || lockstep_->may_begin();
        };
        while (!lockstep_->changed_.wait_for(lock, kBetweenLooks, can_go_on)) {
            if (auto end = executor_->check_alive()) {
                become(State::absent);
                throw WorkerDied(*end);
            }
        }
        if (own_.state == State::ready) lockstep_->begin();
    }
    try {
        StepResult result = executor_->execute(plan);
        leave(State::planning);
        return result;
    } catch (const WorkerDied&) {
        leave(State::absent);
        throw;
    } catch (...) {
        leave(State::planning);
        throw;
    }
}

void LockstepExecutor::leave(State state) {
    const std::lock_guard lock(lockstep_->mutex_);
    become(state);
    if (--lockstep_->num_computing_ == 0) lockstep_->finish();
}

void LockstepExecutor::forget() {
    const std::lock_guard lock(lockstep_->mutex_);
    try {
        executor_->forget();
    } catch (const WorkerDied&) {
        become(State::absent);
        throw;
    }
}

void LockstepExecutor::rest() {
    const std::lock_guard lock(lockstep_->mutex_);
    if (own_.state == State::planning) become(State::resting);
}

}  // namespace nvllm
