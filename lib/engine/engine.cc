// The engine's public calls, carried out by its loop (engine_loop.h).
#include "lib/engine/engine.h"

#include <fmt/format.h>

#include "lib/engine/loop/engine_loop.h"

namespace nvllm {

Engine::Engine(const EngineConfig& config) : loop_(std::make_unique<Loop>(config)) {}
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
    return loop_->input().process(input);
}
RequestId Engine::submit(Request request, OutputListener listener) {
    return loop_->submit(std::move(request), std::move(listener));
}
void Engine::cancel(RequestId id) { loop_->inbox().cancel(id); }
void Engine::hold(RequestId id) { loop_->inbox().hold(id, true); }
void Engine::go_on(RequestId id) { loop_->inbox().hold(id, false); }
void Engine::wait_idle() { loop_->status().wait_idle(); }
void Engine::resize_cache(double share) { loop_->resize_cache(share); }
CacheReset Engine::reset_prefix_cache() { return loop_->reset_prefix_cache(); }
void Engine::stop() { loop_->stop(); }
void Engine::set_step_listener(std::function<void(const StepRecord&)> listener) {
    loop_->step_listener = std::move(listener);
}
std::future<Snapshot> Engine::snapshot(SnapshotDetail detail) {
    return loop_->inbox().snapshot(detail);
}
void Engine::set_snapshot_listener(uint64_t after_step,
                                   std::function<void(const Snapshot&)> listener) {
    loop_->snapshot_step = after_step;
    loop_->snapshot_listener = std::move(listener);
}
const InputProcessor& Engine::input_processor() const { return loop_->input(); }
const std::shared_ptr<const Tokenizer>& Engine::tokenizer() const {
    return loop_->model().tokenizer;
}
const ModelConfig& Engine::model_config() const { return loop_->model().config; }
const std::vector<std::string>& Engine::model_notes() const { return loop_->model().notes; }
const MemoryPlan& Engine::memory_plan() const { return loop_->model().plan; }
const StartTimings& Engine::start_timings() const { return loop_->model().timings; }
EngineStats Engine::stats() const { return loop_->status().stats(); }
EngineHealth Engine::health() const { return loop_->status().health(); }

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
