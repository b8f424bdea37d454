// The engine's public calls, carried out by its replicas' loops (engine_loop.h).
#include "lib/engine/engine.h"

#include <fmt/format.h>

#include "lib/engine/replicas/replicas.h"

namespace nvllm {

Engine::Engine(const EngineConfig& config) : replicas_(std::make_unique<Replicas>(config)) {}
Engine::~Engine() = default;

MemoryPlan Engine::plan(const EngineConfig& config, std::optional<uint64_t> available_bytes) {
    EngineMetadata metadata = engine_metadata(config);
    if (available_bytes) metadata.memory.available_bytes = *available_bytes;
    MemoryPlan plan = plan_memory(metadata.memory);
    const ModelLoadOptions& options = metadata.options;
    if (options.load_format != LoadFormat::dummy && metadata.model.checkpoint == nullptr) {
        plan.notices.push_back(
            fmt::format("{} has no safetensors weights: planned for {} ones of its config.json",
                        options.directory.string(), dtype_name(metadata.model.config.dtype)));
    }
    return plan;
}

Result<Request> Engine::prepare(const RequestInput& input) const {
    Result<Request> request = replicas_->input().process(input);
    if (!request || input.adapter.empty()) return request;
    Result<AdapterRef> adapter = replicas_->adapters().find(input.adapter);
    if (!adapter) return adapter.fault();
    request->adapter = *std::move(adapter);
    return request;
}
RequestId Engine::submit(Request request, OutputListener listener) {
    return replicas_->submit(std::move(request), std::move(listener));
}
void Engine::cancel(RequestId id) { replicas_->loop_of(id).inbox().cancel(id); }
void Engine::hold(RequestId id, bool is_held) { replicas_->loop_of(id).inbox().hold(id, is_held); }
void Engine::wait_idle() { replicas_->wait_idle(); }
void Engine::resize_cache(double share) { replicas_->resize_cache(share); }
CacheReset Engine::reset_prefix_cache() { return replicas_->reset_prefix_cache(); }
void Engine::stop() { replicas_->stop(); }
void Engine::set_step_listener(std::function<void(const StepRecord&)> listener) {
    replicas_->set_step_listener(listener);
}
std::future<Snapshot> Engine::snapshot(SnapshotDetail detail, int32_t replica) {
    return replicas_->loop(replica).inbox().snapshot(detail);
}
void Engine::set_snapshot_listener(uint64_t after_step,
                                   std::function<void(const Snapshot&)> listener) {
    EngineLoop& first = replicas_->loop(0);
    first.snapshot_step = after_step;
    first.snapshot_listener = std::move(listener);
}
AdapterRegistry& Engine::adapters() const { return replicas_->adapters(); }
const InputProcessor& Engine::input_processor() const { return replicas_->input(); }
const std::shared_ptr<const Tokenizer>& Engine::tokenizer() const {
    return replicas_->model().tokenizer;
}
const ModelConfig& Engine::model_config() const { return replicas_->model().config; }
const std::vector<std::string>& Engine::model_notes() const { return replicas_->model().notes; }
const MemoryPlan& Engine::memory_plan() const { return replicas_->model().plan; }
const StartTimings& Engine::start_timings() const { return replicas_->model().timings; }
EngineStats Engine::stats(std::optional<int32_t> replica) const {
    return replica ? replicas_->loop(*replica).status().stats() : replicas_->stats();
}
EngineHealth Engine::health(std::optional<int32_t> replica) const {
    return replica ? replicas_->loop(*replica).status().health() : replicas_->health();
}

const char* engine_state_name(EngineState state) {
    switch (state) {
        case EngineState::running:
            return "running";
        case EngineState::recovering:
            return "recovering";
        case EngineState::stalled:
            return "stalled";
        case EngineState::failed:
            return "failed";
    }
    return "";
}

}  // namespace nvllm
