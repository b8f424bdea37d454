// Everything an engine owns, and the thread that runs it: takes messages, steps, publishes.
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

namespace nvllm {

// What an engine knows of its model when it has started.
struct LoadedModel {
    std::string name;
    ModelConfig config;
    std::vector<std::string> notes;
    MemoryPlan plan;
    StartTimings timings;
    std::shared_ptr<const Tokenizer> tokenizer;
};

class Engine::Loop {
  public:
    explicit Loop(const EngineConfig& config);
    ~Loop();

    // Any thread.
    RequestId submit(Request request, OutputListener listener);
    void resize_cache(double share);
    CacheReset reset_prefix_cache();
    EngineInbox& inbox() { return inbox_; }
    EngineStatus& status() { return status_; }
    const InputProcessor& input() const { return *input_; }
    const LoadedModel& model() const { return model_; }
    void stop();

    std::function<void(const StepRecord&)> step_listener;
    std::function<void(const Snapshot&)> snapshot_listener;
    uint64_t snapshot_step = 0;

  private:
    // The start.
    void make_parts(const EngineMetadata& metadata);
    void load(const EngineMetadata& metadata);
    void load_texts(const EngineMetadata& metadata);
    void open_for_others(const EngineConfig& config);

    // The engine thread.
    void run(std::promise<WorkerReady> started);
    bool start_worker(std::promise<WorkerReady>& started);
    void sleep(WakeEvent& event);
    void take(EngineMessage& message);
    void add(SubmitMessage& message);
    void cancel(RequestId id);
    void answer(SnapshotMessage& message) const;
    Snapshot take_snapshot(SnapshotDetail detail) const;
    void note_step(const StepRecord& record);
    void publish_progress();

    EngineClock clock_;
    EngineInbox inbox_{clock_};
    EngineStatus status_;
    OutputDelivery delivery_{clock_};
    PendingResizes resizes_;
    LoadedModel model_;
    std::unique_ptr<InputProcessor> input_;
    std::unique_ptr<StepExecutor> executor_;
    std::unique_ptr<CacheManager> cache_;
    std::unique_ptr<Scheduler> scheduler_;
    std::optional<FragmentationMeter> fragmentation_;
    std::optional<FaultHandler> faults_;
    std::optional<StepRunner> steps_;
    std::thread thread_;
    std::unique_ptr<InspectionServer> inspection_;
};

}  // namespace nvllm
