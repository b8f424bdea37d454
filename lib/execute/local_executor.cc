// Hands everything to the worker.
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

StepResult LocalExecutor::execute(const BatchPlan& plan) { return worker_->execute(plan); }

void LocalExecutor::forget() { worker_->reset(); }

bool LocalExecutor::kill(const std::string&) { return false; }

}  // namespace nvllm
