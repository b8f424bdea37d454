// Writes step records as they come from the engine thread.
#include "tools/run/step_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace nvllm::run {

namespace {

// Of steps without any there is no such key.
std::string drafts_of(const StepRecord& step) {
    if (step.drafts.empty()) return {};
    std::string list;
    for (const VerifiedDrafts& verified : step.drafts) {
        std::vector<int32_t> parents;
        for (int32_t row = 1; row <= verified.drafts.size(); ++row) {
            parents.push_back(verified.drafts.parent(row));
        }
        list += fmt::format(
            R"({}{{"sequence":{},"token_ids":[{}],"parents":[{}],"accepted_rows":[{}]}})",
            list.empty() ? "" : ",", verified.sequence, fmt::join(verified.drafts.token_ids, ","),
            fmt::join(parents, ","), fmt::join(verified.accepted_rows, ","));
    }
    return R"(,"drafts":[)" + list + "]";
}

}  // namespace

StepLog::StepLog(Engine& engine, const std::filesystem::path& file)
    : name_(file.string()), stream_(file) {
    if (!stream_) throw Error(ErrorKind::cannot_create, file.string() + ": cannot be written");
    engine.set_step_listener([this](const StepRecord& step) {
        stream_ << fmt::format(
            R"({{"replica":{},"plan_number":{},"num_sequences":{},"num_tokens":{},"num_prefill_tokens":{},)"
            R"("num_decode_tokens":{},"num_draft_tokens":{},"num_proposed":{},"num_waiting":{},"num_running":{},)"
            R"("num_paused":{},"num_swapped":{},"num_finished":{},"num_preemptions":{},"token_budget":{},)"
            R"("swapped_bytes":{},"rank_bytes":{},"dropped_experts":{},"sampled_on_device":{},"graph_captures":{},"graph_launches":{},"draft_ms":{:.3f},"busy_ms":{:.3f},"step_ms":{:.3f}{}}})"
            "\n",
            step.replica, step.plan_number, step.num_sequences, step.num_tokens,
            step.num_prefill_tokens, step.num_tokens - step.num_prefill_tokens,
            step.num_draft_tokens, step.num_proposed, step.num_waiting, step.num_running,
            step.num_paused, step.num_swapped, step.num_finished, step.num_preemptions,
            step.token_budget, step.swapped_bytes, step.rank_bytes, step.dropped_experts,
            step.device.sampled_rows, step.device.graph_captures, step.device.graph_launches,
            step.draft_ms, step.busy_ms, step.step_ms, drafts_of(step));
    });
}

void StepLog::finish() {
    stream_.close();
    if (!stream_) throw Error(ErrorKind::io, name_ + ": cannot be written in full");
}

std::string describe(const EngineStats& stats, int64_t num_tokens, double seconds) {
    const CacheStats& cache = stats.cache;
    std::string text = fmt::format(
        "{} tokens in {:.2f} s, {:.1f} a second; {} steps, {} tokens of prefill and {} of decode "
        "computed, {} of {} prompt tokens found in the cache, {} preemptions",
        num_tokens, seconds, seconds > 0.0 ? static_cast<double>(num_tokens) / seconds : 0.0,
        stats.scheduler.steps, stats.scheduler.prefill_tokens,
        stats.scheduler.scheduled_tokens - stats.scheduler.prefill_tokens, cache.hit_tokens,
        cache.queried_tokens, stats.scheduler.preemptions);
    const SpeculationStats& speculation = stats.scheduler.speculation;
    if (speculation.drafts > 0) {
        text += fmt::format(", {} of {} proposed tokens accepted", speculation.accepted_tokens,
                            speculation.draft_tokens);
    }
    return text;
}

}  // namespace nvllm::run
