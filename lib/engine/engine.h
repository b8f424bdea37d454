// Accepts requests and streams their outputs: plan, execute, check stops, commit, emit.
//
// One engine thread owns scheduler, cache and worker; callers submit from any thread through an
// inbox. With data parallelism there are several replicas of those, and a request goes to one of
// them (ReplicaRouter). A request's faults end that request only. A worker that is lost, in a
// process of its own or by a step that failed, costs no request anything but time.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/cache/cache_stats.h"
#include "lib/engine/adapters/adapter_registry.h"
#include "lib/engine/engine_config.h"
#include "lib/engine/loop/health.h"
#include "lib/execute/memory_budget.h"
#include "lib/request/draft_tokens.h"
#include "lib/request/request_output.h"
#include "lib/schedule/scheduler_stats.h"
#include "lib/schedule/snapshot.h"

namespace nvllm {

class InputProcessor;
class Tokenizer;
struct RequestInput;

// Called on the engine thread with new output, in order (of several replicas' threads by one at a
// time); the last call of a request has `finished` set. Must not block for long and must not call
// back into the engine but for cancel() and hold().
using OutputListener = std::function<void(RequestOutput&&)>;

// How long each phase of the start took; phases may overlap.
struct StartTimings {
    double config_ms = 0.0;     // directory, config.json, memory plan
    double weights_ms = 0.0;    // mapping, conversion
    double tokenizer_ms = 0.0;  // while the weights are loaded
    double worker_ms = 0.0;     // blocks, scratch
    double total_ms = 0.0;
};

// Drafts that a step verified for a sequence, and the rows (DraftTokens) of those it accepted.
struct VerifiedDrafts {
    SequenceId sequence = 0;
    DraftTokens drafts;
    std::vector<int32_t> accepted_rows;
};

// One line for every step, for --step-log and tests.
struct StepRecord {
    int32_t replica = 0;
    uint64_t plan_number = 0;
    double began_s = 0.0;            // on the engine's clock
    int32_t num_sequences = 0;       // in the plan
    int32_t num_tokens = 0;          // computed
    int32_t num_prefill_tokens = 0;  // of those; the rest is decode
    int32_t num_draft_tokens = 0;    // of num_tokens, proposed ones that are verified
    int32_t num_waiting = 0;         // after planning
    int32_t num_running = 0;
    int32_t num_paused = 0;       // of the waiting: without a slot, with their blocks
    int32_t num_swapped = 0;      // of the waiting: in host memory
    int32_t num_finished = 0;     // by this step
    int64_t num_preemptions = 0;  // so far
    int32_t token_budget = 0;     // of the next step
    uint64_t swapped_bytes = 0;   // to and from host memory, by this step
    double swap_ms = 0.0;
    int32_t num_ranks = 1;                // that computed it
    double busy_ms = 0.0;                 // of all ranks, without what they waited for others
    uint64_t rank_bytes = 0;              // between ranks, by this step
    int64_t dropped_experts = 0;          // choices of experts that had no room
    std::vector<ExpertLoad> expert_load;  // where it is recorded
    int32_t num_proposed = 0;  // drafts of the next step that a model proposed in this one
    double draft_ms = 0.0;     // of step_ms, by those
    DeviceCounts device;       // of this step
    double step_ms = 0.0;
    // Requests with sequences that were admitted, for the first time or again, or preempted before
    // it.
    std::vector<RequestId> admitted;
    std::vector<RequestId> preempted;
    std::vector<VerifiedDrafts> drafts;  // empty when the step failed
};

// Of one of several replicas.
struct ReplicaStats {
    EngineState state = EngineState::running;
    int64_t num_routed = 0;  // requests that it was given
    int32_t num_running = 0;
    int32_t num_waiting = 0;
    BlockCounts blocks;
    int64_t queried_tokens = 0;
    int64_t hit_tokens = 0;
};

struct EngineStats {
    SchedulerStats scheduler;
    CacheStats cache;
    FaultCounts faults;
    DeviceCounts device;
    double fragmentation = 0.0;  // as in DetailedCacheStats, measured about once a second of work
    // Since the last progress of the engine thread; 0 while it has nothing to do. A value far
    // beyond the time of a step means that the thread hangs.
    double seconds_since_heartbeat = 0.0;
    std::vector<ReplicaStats> replicas = {};  // of all together; empty: there is one
};

class Engine {
  public:
    // Loads the model and starts the engine thread. Throws Error for anything wrong with the model
    // or the options.
    explicit Engine(const EngineConfig& config);
    // Drops unfinished requests and joins the engine thread.
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // The plan alone, whether it fits or not: reads headers, or config.json where there are no
    // weights. `available_bytes` stands for another machine's free memory. Throws as the
    // constructor does for all that is not about memory.
    static MemoryPlan plan(const EngineConfig& config,
                           std::optional<uint64_t> available_bytes = std::nullopt);

    // Checks and tokenizes, on the caller's thread; a fault is the request's own.
    Result<Request> prepare(const RequestInput& input) const;
    // Queues a prepared request. What goes wrong from here on arrives as an output with
    // FinishReason::error.
    RequestId submit(Request request, OutputListener listener);
    // The listener gets a last output with FinishReason::cancelled, unless the request has finished
    // meanwhile.
    void cancel(RequestId id);
    // Pauses a request whose client does not read, or lets it go on. Outputs of the steps in flight
    // still come. Has no effect on a beam search, or when the request has finished.
    void hold(RequestId id, bool is_held = true);
    // Blocks until nothing is queued or running.
    void wait_idle();
    // Changes the key-value cache to this share (0 to 1] of the blocks it was planned with, while
    // requests run; blocks until it is done. Throws does_not_fit when a running request could not
    // finish in it, usage for another share.
    void resize_cache(double share);
    // Removes from the prefix cache what no request uses at present; blocks until it is done.
    CacheReset reset_prefix_cache();
    // Ends the engine thread: unfinished requests are dropped and no listener is called any more.
    // Safe to repeat.
    void stop();

    // Set before the first submit(); called on the engine thread after every step.
    void set_step_listener(std::function<void(const StepRecord&)> listener);

    // Everything the engine keeps books on, as it is between two steps. Does not wait: the future
    // is ready soon, or its promise is broken when the engine ends first.
    std::future<Snapshot> snapshot(SnapshotDetail detail, int32_t replica = 0);
    // Called once, on the engine thread, after the step with this number, of the first replica. Set
    // before the first submit().
    void set_snapshot_listener(uint64_t after_step, std::function<void(const Snapshot&)> listener);

    // Those that requests may name.
    AdapterRegistry& adapters() const;

    const InputProcessor& input_processor() const;
    const std::shared_ptr<const Tokenizer>& tokenizer() const;  // null when the model has none
    const ModelConfig& model_config() const;
    // What the model's files say and is not heeded (lib/tokenizer/model_notes.h).
    const std::vector<std::string>& model_notes() const;
    const MemoryPlan& memory_plan() const;  // of each replica
    const StartTimings& start_timings() const;
    // Of one replica, or of all together. As of the last step, but for seconds_since_heartbeat,
    // which is of now.
    EngineStats stats(std::optional<int32_t> replica = {}) const;
    // Alike; as of now, from any thread, whatever the engine thread is at.
    EngineHealth health(std::optional<int32_t> replica = {}) const;

  private:
    class Replicas;
    std::unique_ptr<Replicas> replicas_;
};

}  // namespace nvllm
