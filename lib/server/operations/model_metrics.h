// What is counted of one model: its requests, steps, cache and faults.
//
// Made by ServerMetrics::model(), which owns it. Requests are counted by RequestMetrics (one for
// each, request_meter.h), so that each that came in goes out exactly once; what the engine keeps
// count of is asked for at a scrape. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "lib/engine/engine.h"
#include "lib/request/request_output.h"
#include "lib/server/operations/adapter_metrics.h"
#include "lib/server/operations/metric_families.h"

namespace nvllm::server {

// Why a request was taken back.
enum class AbortCause : uint8_t {
    disconnect,     // the client left
    write_stall,    // the client read too slowly
    deadline,       // the whole request took too long
    queue_timeout,  // it waited too long
    shutdown,
    operator_request,
    unknown,
};
inline constexpr size_t kNumAbortCauses = 7;
const char* abort_cause_name(AbortCause cause);

// How far it had come.
enum class AbortState : uint8_t { queued, prefill, decode };
inline constexpr size_t kNumAbortStates = 3;
const char* abort_state_name(AbortState state);

// The codes of refusals of requests that could have been computed, at another time.
inline constexpr std::array<std::string_view, 4> kRejectionReasons = {
    "queue_full", "rate_limit_exceeded", "out_of_memory", "fragmented"};

// How much was done to recover from a fault.
enum class RecoveryLevel : uint8_t {
    adjust,           // settings changed: a smaller batch, a smaller cache
    request,          // one request ended or began anew
    worker,           // a worker was started again
    process,          // the whole process was
    operator_action,  // an operator had to act
};
inline constexpr size_t kNumRecoveryLevels = 5;
// "adjust", "request", "worker", "process", "operator".
const char* recovery_level_name(RecoveryLevel level);

// A request that ended.
struct FinishedRequest {
    RequestTimes times;  // finished_s is known, unless the engine ended before the request did
    FinishReason reason = FinishReason::stop;
    int64_t num_prompt_tokens = 0;
    int64_t num_generated_tokens = 0;  // of all continuations
    int64_t longest_answer = 0;        // tokens of the longest one
    int32_t n = 1;
    std::optional<int32_t> max_tokens;
    // Of FinishReason::cancelled.
    AbortCause cause = AbortCause::unknown;
    std::optional<double> abort_latency_s;
};

class ModelMetrics {
  public:
    // `vllm` is null when vLLM's names are off. `families` and `vllm` outlive the object.
    ModelMetrics(const std::string& name, ModelFamilies& families, VllmFamilies* vllm);
    ModelMetrics(const ModelMetrics&) = delete;
    ModelMetrics& operator=(const ModelMetrics&) = delete;

    const std::string& name() const { return name_; }

    // Where the stats of the engine come from, from the next scrape on; an empty function: they
    // are left out. Once this returns, the function given before is not called any more.
    void set_engine(std::function<EngineStats()> stats);
    // The settings that vllm:cache_config_info shows.
    void set_cache_config(const EngineConfig& config, const MemoryPlan& plan);

    void observe_step(const StepRecord& step);

    // Refused before it reached the engine; `reason` is one of kRejectionReasons.
    void rejected(std::string_view reason);
    // What the engine does by itself is among its own counts.
    void recovered(RecoveryLevel level);
    void device_reset() { device_resets_.add(); }

    // Since the start, of requests whose first token came.
    uint64_t prompt_tokens() const { return prompt_tokens_.value(); }
    uint64_t generated_tokens() const { return generated_tokens_.value(); }

    // Called by the owner at the beginning of a scrape.
    void refresh();

  private:
    friend class RequestMetrics;

    // What must agree in one scrape: changed under mutex_, and shown as it was at one moment.
    struct RequestCounts {
        uint64_t accepted = 0;
        std::array<uint64_t, 4> ended{};  // by FinishReason
        std::array<std::array<uint64_t, kNumAbortStates>, kNumAbortCauses> aborted{};
        int64_t in_flight = 0;
    };

    // Called by RequestMetrics, in this order, for each request.
    void accepted();
    void first_token(const RequestOutput& output, int64_t num_prompt_tokens);
    void generated(int64_t num_tokens) { generated_tokens_.add(static_cast<uint64_t>(num_tokens)); }
    void gap(double seconds) { inter_token_.observe(seconds); }
    void ended(const FinishedRequest& request);

    void observe_times(const FinishedRequest& request);
    void observe_sizes(const FinishedRequest& request);
    void show_requests();
    void show_engine(const EngineStats& stats);
    void show_replica(size_t index, const ReplicaStats& stats);
    void show_speculation(const SpeculationStats& stats);
    void forget_engine();

    std::string name_;
    ModelFamilies& families_;
    VllmFamilies* vllm_;
    AdapterMetrics adapters_;

    // Children that are counted often.
    Counter& prompt_tokens_;
    Counter& cached_prompt_tokens_;
    Counter& computed_prompt_tokens_;
    Counter& generated_tokens_;
    Counter& swapped_bytes_;
    Counter& rank_bytes_;
    Counter& dropped_experts_;
    Counter& device_resets_;
    Histogram& first_token_;
    Histogram& inter_token_;
    Histogram& step_time_;
    Histogram& step_tokens_;
    Histogram& batch_size_;

    std::mutex mutex_;
    RequestCounts counts_;
    std::mutex engine_mutex_;  // held while stats_ is asked
    std::function<EngineStats()> stats_;
    size_t num_replicas_ = 0;  // that were shown
};

}  // namespace nvllm::server
