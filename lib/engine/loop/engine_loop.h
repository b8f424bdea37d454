// What one replica of an engine owns, and the thread that runs it: takes messages, steps,
// publishes.
//
// The engine thread owns scheduler, cache, executor and outputs without locks. Other threads reach
// it by the inbox and read its state from the status; those two have their own locks.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/engine/engine_start.h"
#include "lib/engine/inspection.h"
#include "lib/engine/loop/engine_clock.h"
#include "lib/engine/loop/engine_inbox.h"
#include "lib/engine/loop/engine_status.h"
#include "lib/engine/loop/fault_handler.h"
#include "lib/engine/loop/fragmentation_meter.h"
#include "lib/engine/loop/output_delivery.h"
#include "lib/engine/loop/pending_resizes.h"
#include "lib/engine/loop/step_runner.h"
#include "lib/execute/step_executor.h"

namespace nvllm {

class EngineLoop {
  public:
    // Starts the thread, which begins to load the model. `clock` must outlive the loop.
    EngineLoop(const EngineMetadata& metadata, const MemoryPlan& plan, const EngineClock& clock,
               std::unique_ptr<StepExecutor> executor);
    ~EngineLoop();
    EngineLoop(const EngineLoop&) = delete;
    EngineLoop& operator=(const EngineLoop&) = delete;

    // Waits until requests can be submitted. `tokenizer`: null when the model has none. Throws what
    // was wrong with the model.
    WorkerReady finish_start(std::shared_ptr<const Tokenizer> tokenizer);

    // Any thread.
    RequestId submit(Request request, OutputListener listener);
    void resize_cache(double share);
    CacheReset reset_prefix_cache();
    EngineInbox& inbox() { return inbox_; }
    EngineStatus& status() { return status_; }
    // Waits for the disk tier to have what it is to have, but not for sequences.
    void write_out();
    void stop();

    // As Engine has them.
    std::function<void(const StepRecord&)> step_listener;
    std::function<void(const Snapshot&)> snapshot_listener;
    uint64_t snapshot_step = 0;

  private:
    // The engine thread.
    void run(std::promise<WorkerReady> started);
    bool start_worker(std::promise<WorkerReady>& started);
    void sleep(WakeEvent& event);
    void pause();
    void take(EngineMessage& message);
    void add(SubmitMessage& message);
    void cancel(RequestId id);
    void answer(SnapshotMessage& message) const;
    Snapshot take_snapshot(SnapshotDetail detail) const;
    void note_step(const StepRecord& record);
    void publish_progress();
    void report_written();

    const EngineClock& clock_;
    const std::string model_;  // its name
    const double watchdog_timeout_s_;
    const std::string inspection_socket_;  // empty: none
    const std::vector<int32_t> planned_blocks_;
    EngineInbox inbox_;
    EngineStatus status_;
    OutputDelivery delivery_{clock_};
    PendingResizes resizes_;
    std::vector<std::promise<void>> writes_out_;  // that wait for the disk tier
    std::unique_ptr<StepExecutor> executor_;
    std::unique_ptr<CacheManager> cache_;
    std::unique_ptr<Scheduler> scheduler_;
    FragmentationMeter fragmentation_;
    FaultHandler faults_;
    StepRunner steps_;
    std::thread thread_;
    std::future<WorkerReady> started_;
    std::unique_ptr<InspectionServer> inspection_;
};

}  // namespace nvllm
