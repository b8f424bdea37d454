// The worker in this process, on the calling thread.
#pragma once

#include <memory>

#include "kernels/host/thread_pool.h"
#include "lib/execute/step_executor.h"

namespace nvllm {

class LocalExecutor : public StepExecutor {
  public:
    // The pool is placed as the setup says.
    explicit LocalExecutor(const WorkerSetup& setup);

    // Blocks until the worker is made: it is ready on return.
    void start() override;
    std::optional<WorkerReady> ready(bool wait) override;
    std::optional<int> readable_descriptor() const override { return std::nullopt; }
    std::optional<std::string> check_alive() override { return std::nullopt; }
    StepResult execute(const BatchPlan& plan) override;
    int max_in_flight() const override {
        return setup_.model.device.module_path.empty() ? 1 : kDevicePlansInFlight;
    }
    void begin(const BatchPlan& plan) override;
    StepResult finish() override;
    void forget() override;
    std::optional<int> process_id() const override { return std::nullopt; }
    bool kill(const std::string& cause) override;

  private:
    WorkerSetup setup_;
    ThreadPool threads_;
    std::unique_ptr<Worker> worker_;
    WorkerReady ready_;
};

}  // namespace nvllm
