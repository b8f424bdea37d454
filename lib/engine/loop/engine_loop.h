// Everything an engine owns, and the thread that runs it: messages in, steps, outputs.
//
// The engine thread owns what is not said to be guarded by the mutex: scheduler, cache, executor,
// outputs. engine_loop.cc has the thread and its messages, engine_step.cc a step and what becomes
// of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/engine/engine_start.h"
#include "lib/engine/inspection.h"
#include "lib/engine/loop/recovery.h"
#include "lib/engine/loop/step_faults.h"
#include "lib/engine/loop/watchdog.h"
#include "lib/engine/output_processor.h"
#include "lib/system/wake_event.h"

namespace nvllm {

class Engine::Loop {
  public:
    explicit Loop(const EngineConfig& config);
    ~Loop();

    Result<Request> prepare(const RequestInput& input) const { return input_->process(input); }
    RequestId submit(Request request, OutputListener listener);
    void cancel(RequestId id);
    void hold(RequestId id, bool is_held);
    void wait_idle();
    void resize_cache(double share);
    void stop();
    std::future<Snapshot> snapshot(SnapshotDetail detail);

    std::function<void(const StepRecord&)> step_listener;
    std::function<void(const Snapshot&)> snapshot_listener;
    uint64_t snapshot_step = 0;
    ModelConfig model_config;
    std::vector<std::string> notes;
    MemoryPlan plan;
    StartTimings timings;
    std::shared_ptr<const Tokenizer> tokenizer;
    const InputProcessor& input() const { return *input_; }
    EngineStats stats() const;
    EngineHealth health() const;

  private:
    using Clock = std::chrono::steady_clock;
    struct Submitted {
        Request request;
        OutputListener listener;
    };
    struct Cancelled {
        RequestId id = 0;
    };
    struct Held {
        RequestId id = 0;
        bool is_held = true;  // false: it goes on
    };
    struct Looked {
        SnapshotDetail detail = SnapshotDetail::full;
        std::promise<Snapshot> promise;
    };
    struct Resize {
        std::vector<int32_t> num_blocks;
        std::promise<void> done;
    };
    using Message = std::variant<Submitted, Cancelled, Held, Resize, Looked>;

    double now_s() const;

    // The thread, its start and its messages.
    void load(const EngineMetadata& metadata, Clock::time_point begin);
    void run(std::promise<WorkerReady> started);
    bool start_worker(std::promise<WorkerReady>& started);
    // Sleeps until there is something to do; takes what arrived. False when the engine is to end.
    bool await_work(std::vector<Message>& messages);
    void sleep();
    bool is_shutting_down() const;
    // With the mutex held.
    void post(Message message);
    void take(Message& message);
    void start(Submitted& submitted);
    void refuse(const Request& request, const Fault& fault);
    void cancel_now(RequestId id);
    void resize();
    Snapshot take_snapshot(SnapshotDetail detail) const;
    void answer(Looked& looked) const;
    void publish_progress();

    // One step of the loop; false when nothing could be planned.
    bool can_step() const;
    bool step();
    // A plan that was handed to the worker and not committed.
    struct UnderWay {
        BatchPlan plan;
        StepRecord record;
        Clock::time_point began;
        std::optional<StepResult> result;  // where the worker takes one plan at a time
    };
    PlanLimits limits();
    // Plans, and hands the plan over; false when there was nothing to plan.
    bool begin_step();
    bool may_plan_ahead();
    void finish_step();
    // Commits what came of a step, if anything did, and tells of it.
    void conclude(UnderWay& step, const std::optional<StepResult>& result);
    bool hand_over(UnderWay& step);
    std::optional<StepResult> await_result(UnderWay& step);
    void drop_what_nobody_gets(StepResult& result) const;
    // The scheduler and what is under way forget all that the worker knew.
    void reset_sequences();
    StepRecord begin_record(const BatchPlan& plan);
    void note_comings_and_goings(const BatchPlan& plan, StepRecord& record) const;
    void look_for_fragmentation();
    // Nothing when the step failed, which is dealt with then.
    template <typename Work>
    bool attempt(const BatchPlan& plan, Work&& work);
    void commit(const StepResult& result, StepRecord& record);
    void observe(const StepRecord& record);
    void report(StepRecord& record);
    // Hands out what is new of a request.
    void emit(RequestId request);
    void deliver(RequestOutput&& output);

    // What went wrong.
    void attend_worker();
    void replace_worker(const std::string& cause);
    void forget_sequences();
    void try_again(const BatchPlan& plan, const Fault& fault);
    void fail_step(const BatchPlan& plan, const Fault& fault);
    void fail_request(RequestId request, const Fault& fault);
    void reload_weights();
    void give_up(const std::string& cause);
    void note_fault(const std::string& cause);

    Clock::time_point started_ = Clock::now();
    std::unique_ptr<InputProcessor> input_;
    std::unique_ptr<StepExecutor> executor_;
    std::unique_ptr<CacheManager> cache_;
    std::unique_ptr<Scheduler> scheduler_;
    std::unique_ptr<OutputProcessor> output_;
    std::unordered_map<RequestId, OutputListener> listeners_;
    std::deque<UnderWay> under_way_;  // oldest first
    Clock::time_point last_concluded_;
    std::deque<Resize> resizes_;
    std::vector<std::promise<void>> resized_;  // told with the figures that show it
    std::optional<Recovery> recovery_;
    std::optional<StepFaults> faults_;
    int64_t num_failed_starts_told_ = 0;
    int kills_in_a_row_ = 0;
    bool reloading_ = false;     // a worker is started for its weights, not because one was lost
    std::optional<Fault> dead_;  // why no request is served any more
    DeviceCounts device_counts_;
    double fragmentation_ = 0.0;
    double next_look_s_ = 0.0;  // for fragmentation
    size_t num_delivered_ = 0;  // requests that ended since the last publish_progress()

    Heartbeat heartbeat_;
    WakeEvent wake_event_;
    mutable std::mutex mutex_;
    std::condition_variable idle_;
    std::vector<Message> inbox_;
    uint64_t next_request_ = 1;
    size_t num_open_ = 0;  // submitted and not yet finished
    bool shutdown_ = false;
    bool asleep_ = false;  // the engine thread: it wants to be rung for
    EngineStats stats_;
    EngineHealth health_;
    std::mt19937_64 seeds_{std::random_device{}()};

    std::string model_name_;
    std::thread thread_;
    std::unique_ptr<Watchdog> watchdog_;
    std::unique_ptr<InspectionServer> inspection_;
};

}  // namespace nvllm
