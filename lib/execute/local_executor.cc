// Forwards calls to the worker.
#include "lib/execute/local_executor.h"

namespace nvllm {

LocalExecutor::LocalExecutor(const WorkerSetup& setup) : setup_(setup), threads_(setup.placement) {}

void LocalExecutor::start() {
    worker_.reset();
    worker_ = make_worker(setup_, threads_, ready_);
    // The files that a later start reads are those of then.
    setup_.model.checkpoint = nullptr;
}

std::optional<WorkerReady> LocalExecutor::ready(bool) { return ready_; }

void LocalExecutor::begin(const BatchPlan& plan) {
    try {
        worker_->begin(plan);
    } catch (const DeviceLost& lost) {
        throw WorkerDied(lost.what());
    }
}

StepResult LocalExecutor::finish() {
    try {
        return worker_->finish();
    } catch (const DeviceLost& lost) {
        throw WorkerDied(lost.what());
    }
}

StepResult LocalExecutor::execute(const BatchPlan& plan) {
    begin(plan);
    return finish();
}

void LocalExecutor::forget() {
    try {
        worker_->reset();
    } catch (const DeviceLost& lost) {
        throw WorkerDied(lost.what());
    }
}

bool LocalExecutor::kill(const std::string&) { return false; }

}  // namespace nvllm
