// All replicas of an engine: each has a loop with scheduler, cache and worker of its own; the texts
// of the model, the way of a request and the counts are theirs together.
//
// A request stays with the replica that the router chose. Listeners are called one at a time,
// whichever engine thread calls.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/engine/adapters/adapter_registry.h"
#include "lib/engine/engine.h"
#include "lib/engine/engine_start.h"
#include "lib/engine/input_processor.h"
#include "lib/engine/loop/engine_clock.h"
#include "lib/engine/loop/engine_loop.h"
#include "lib/engine/replicas/expert_load_file.h"
#include "lib/engine/replicas/replica_router.h"

namespace nvllm {

// What an engine knows of its model when it has started.
struct LoadedModel {
    ModelConfig config;
    std::vector<std::string> notes;
    MemoryPlan plan;
    StartTimings timings;
    std::shared_ptr<const Tokenizer> tokenizer;
};

class Engine::Replicas {
  public:
    // Throws as Engine.
    explicit Replicas(const EngineConfig& config);

    const LoadedModel& model() const { return model_; }
    const InputProcessor& input() const { return *input_; }
    AdapterRegistry& adapters() const { return *adapters_; }
    EngineLoop& loop(int32_t replica) const { return *loops_.at(static_cast<size_t>(replica)); }
    // That of a request.
    EngineLoop& loop_of(RequestId id) const {
        return loop(static_cast<int32_t>((id - 1) % loops_.size()));
    }

    RequestId submit(Request request, OutputListener listener);
    void resize_cache(double share);
    CacheReset reset_prefix_cache();
    void wait_idle();
    void stop();
    void set_step_listener(const std::function<void(const StepRecord&)>& listener);
    // Of all together.
    EngineStats stats() const;
    EngineHealth health() const;

  private:
    void load_adapters(const EngineMetadata& metadata);
    void start_loops(EngineMetadata& metadata);
    void load_texts(const EngineMetadata& metadata);
    std::vector<bool> usable() const;
    OutputListener routed(Route route, OutputListener listener);

    EngineClock clock_;
    LoadedModel model_;
    std::unique_ptr<InputProcessor> input_;
    std::unique_ptr<AdapterRegistry> adapters_;
    std::optional<ReplicaRouter> router_;  // of several
    std::optional<ExpertLoadRecorder> recorder_;
    std::mutex listening_;  // held while one of several calls a listener
    std::vector<std::unique_ptr<EngineLoop>> loops_;
};

}  // namespace nvllm
