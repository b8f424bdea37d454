// Rates of tokens, and what waits.
#include "lib/server/models/throughput_log.h"

#include <fmt/format.h>

#include "lib/base/log.h"

namespace nvllm::server {
namespace {

double share(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

}  // namespace

ThroughputLog::ThroughputLog(double interval_s, Clock::time_point now)
    : interval_(interval_s), last_(now) {}

void ThroughputLog::check(const ModelSet& models, Clock::time_point now) {
    if (interval_.count() <= 0.0 || now - last_ < interval_) return;
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    for (const auto& model : models.all()) {
        if (model->state() == ModelState::ready) say(*model, seconds);
    }
}

void ThroughputLog::say(const HostedModel& model, double seconds) {
    const Tokens tokens{model.metrics().prompt_tokens(), model.metrics().generated_tokens()};
    const Tokens before = std::exchange(before_[model.name()], tokens);
    const EngineStats stats = model.engine()->stats();
    const bool has_moved = tokens.prompt != before.prompt || tokens.generated != before.generated;
    if (!has_moved && stats.scheduler.num_running + stats.scheduler.num_waiting == 0) return;
    const double prompt_rate = static_cast<double>(tokens.prompt - before.prompt) / seconds;
    const double output_rate = static_cast<double>(tokens.generated - before.generated) / seconds;
    const double usage = share(stats.cache.blocks.used, stats.cache.blocks.total);
    const double hits = share(static_cast<double>(stats.cache.hit_tokens),
                              static_cast<double>(stats.cache.queried_tokens));
    constexpr bool kInMessage = true;
    const LogField fields[] = {{"model", model.name(), kInMessage},
                               {"prompt_tokens_per_s", prompt_rate, kInMessage},
                               {"generated_tokens_per_s", output_rate, kInMessage},
                               {"running", int64_t{stats.scheduler.num_running}, kInMessage},
                               {"waiting", int64_t{stats.scheduler.num_waiting}, kInMessage},
                               {"kv_cache_usage", usage, kInMessage},
                               {"prefix_cache_hit_rate", hits, kInMessage}};
    log_message(LogLevel::info,
                fmt::format("{}: prompts {:.1f} tokens/s, answers {:.1f} tokens/s, {} running, {} "
                            "waiting, cache {:.1f} % used, {:.1f} % of prompts found in it",
                            model.name(), prompt_rate, output_rate, stats.scheduler.num_running,
                            stats.scheduler.num_waiting, 100.0 * usage, 100.0 * hits),
                fields);
}

}  // namespace nvllm::server
