// The worker in a process of its own: the program nvllm-worker, spawned, spoken to over a pair of
// sockets, killed and spawned again.
//
// The child ends with this process and with the thread that called start(), however these end.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>

#include "lib/execute/frame_channel.h"
#include "lib/execute/step_executor.h"
#include "lib/system/child_process.h"

namespace nvllm {

class RemoteExecutor : public StepExecutor {
  public:
    // `program`: nvllm-worker of this build; find_worker_program().
    RemoteExecutor(const WorkerSetup& setup, const std::filesystem::path& program);

    void start() override;
    std::optional<WorkerReady> ready(bool wait) override;
    std::optional<int> readable_descriptor() const override;
    std::optional<std::string> check_alive() override;
    StepResult execute(const BatchPlan& plan) override;
    int max_in_flight() const override {
        return setup_.model.device.module_path.empty() ? 1 : kDevicePlansInFlight;
    }
    void begin(const BatchPlan& plan) override;
    StepResult finish() override;
    void forget() override;
    std::optional<int> process_id() const override;
    bool kill(const std::string& cause) override;

  private:
    // Sends, and takes a failure to do so for the worker's end.
    template <typename Message>
    void send(const Message& message);
    // The next frame's kind.
    MessageKind receive();
    // Ends what is left of the worker; how it came to its end.
    std::string bury(const std::string& what_was_seen);
    bool was_killed_by_others_ = false;  // the one that was buried last
    [[noreturn]] void throw_lost(const std::string& what_was_seen);

    WorkerSetup setup_;
    std::filesystem::path program_;
    std::unique_ptr<FrameChannel> channel_;  // null: no worker
    std::deque<BatchPlan> sent_plans_;       // not answered yet

    mutable std::mutex mutex_;  // of what other threads see
    std::unique_ptr<ChildProcess> process_;
    std::string kill_cause_;  // empty: this process did not kill it
};

// Where nvllm-worker lies: below the installation or the build tree that this library, or else the
// running program, belongs to. Throws not_found, naming the places.
std::filesystem::path find_worker_program();

}  // namespace nvllm
