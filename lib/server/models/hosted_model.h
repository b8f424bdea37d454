// A model of this server: its names, its engine and its state.
#pragma once

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/server/access/admission_options.h"
#include "lib/server/openai/model_output.h"
#include "lib/server/openai/request_limits.h"
#include "lib/server/operations/request_timeline.h"
#include "lib/server/operations/server_metrics.h"

namespace nvllm::server {

enum class ModelState { loading, ready, failed, unloading };
const char* model_state_name(ModelState state);

// After memory ran out, requests are refused for so long.
inline constexpr std::chrono::milliseconds kOutOfMemoryPause{1000};

// What of a model's options the server decides.
struct ModelLimits {
    AdmissionOptions admission;
    RequestLimits request;
    OutputFormatOptions formats;
};

class HostedModel {
  public:
    // `names`: the first is the model's own, requests may use the others as well. `metrics`
    // outlives the model.
    HostedModel(std::vector<std::string> names, EngineConfig config, const ModelLimits& limits,
                ServerMetrics& metrics);
    ~HostedModel();
    HostedModel(const HostedModel&) = delete;
    HostedModel& operator=(const HostedModel&) = delete;

    // Builds the engine, with `fitted`: config() within the limits that are left beside other
    // models; blocks. What goes wrong becomes the state `failed` and is thrown on.
    void load(const EngineConfig& fitted);
    // It cannot be loaded: the state is `failed`, and failure() says why.
    void fail(const std::string& why);
    // Ends the engine, if there is one: no request is served from here on.
    void stop();

    const std::string& name() const { return names_.front(); }
    const std::vector<std::string>& names() const { return names_; }
    const EngineConfig& config() const { return config_; }
    std::time_t created() const { return created_; }

    ModelState state() const { return state_; }
    std::string failure() const;
    // Also while it is loaded.
    void begin_unloading() { state_ = ModelState::unloading; }

    // Null until it is loaded.
    Engine* engine() const { return loaded_engine_; }
    // REQUIRES: loaded.
    const RequestLimits& request_limits() const { return limits_.request; }
    // A text has at least one token for each so many of its bytes.
    size_t longest_token_bytes() const { return longest_token_bytes_; }
    const ModelOutput& output() const { return output_; }
    const SamplingParams& default_sampling() const { return default_sampling_; }
    const std::shared_ptr<AdmissionControl>& admission() const { return admission_; }
    // The process has too little memory: no request is admitted before `when`.
    void refuse_until(std::chrono::steady_clock::time_point when) { refused_until_ = when; }
    // That, or a step had not enough within the last kOutOfMemoryPause: asked of the engine, so
    // that no request is admitted between the step and the next check.
    bool is_short_of_memory() const;
    ModelMetrics& metrics() const { return metrics_; }
    ServerMetrics& server_metrics() const { return server_metrics_; }
    RequestTimeline& timeline() const { return timeline_; }

  private:
    const std::vector<std::string> names_;
    const EngineConfig config_;
    ModelLimits limits_;
    ServerMetrics& server_metrics_;
    ModelMetrics& metrics_;
    mutable RequestTimeline timeline_;
    const std::time_t created_ = std::time(nullptr);
    std::atomic<std::chrono::steady_clock::time_point> refused_until_{};
    std::atomic<ModelState> state_ = ModelState::loading;
    mutable std::mutex mutex_;
    std::string failure_;
    std::unique_ptr<Engine> engine_;
    std::atomic<Engine*> loaded_engine_ = nullptr;
    SamplingParams default_sampling_;
    ModelOutput output_;
    size_t longest_token_bytes_ = 1;
    std::shared_ptr<AdmissionControl> admission_;
};

}  // namespace nvllm::server
