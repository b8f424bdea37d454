// Writes step records as they come from the engine thread.
#include "tools/run/step_log.h"

#include <fmt/format.h>

namespace nvllm::run {

StepLog::StepLog(Engine& engine, const std::filesystem::path& file) : stream_(file) {
    if (!stream_) throw Error(ErrorKind::cannot_create, file.string() + ": cannot be written");
    engine.set_step_listener([this](const StepRecord& step) {
        stream_ << fmt::format(
            R"({{"plan_number":{},"num_sequences":{},"num_tokens":{},"num_prefill_tokens":{},)"
            R"("num_decode_tokens":{},"num_waiting":{},"num_running":{},)"
            R"("num_paused":{},"num_swapped":{},"num_finished":{},"num_preemptions":{},"token_budget":{},)"
            R"("swapped_bytes":{},"sampled_on_device":{},"graph_captures":{},"graph_launches":{},"step_ms":{:.3f}}})"
            "\n",
            step.plan_number, step.num_sequences, step.num_tokens, step.num_prefill_tokens,
            step.num_tokens - step.num_prefill_tokens, step.num_waiting, step.num_running,
            step.num_paused, step.num_swapped, step.num_finished, step.num_preemptions,
            step.token_budget, step.swapped_bytes, step.device.sampled_rows,
            step.device.graph_captures, step.device.graph_launches, step.step_ms);
    });
}

std::string describe(const EngineStats& stats) {
    const CacheStats& cache = stats.cache;
    return fmt::format(
        "{} steps, {} tokens of prefill and {} of decode computed, {} of {} prompt tokens found in "
        "the "
        "cache, {} preemptions",
        stats.scheduler.steps, stats.scheduler.prefill_tokens,
        stats.scheduler.scheduled_tokens - stats.scheduler.prefill_tokens, cache.hit_tokens,
        cache.queried_tokens, stats.scheduler.preemptions);
}

}  // namespace nvllm::run
