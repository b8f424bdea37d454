// Counts, and which adapters requests have.
#include "lib/server/operations/adapter_metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

namespace nvllm::server {
namespace {

uint64_t count_of(int64_t value) { return static_cast<uint64_t>(std::max<int64_t>(0, value)); }

}  // namespace

void AdapterMetrics::enable(int32_t max_loras) { max_loras_ = fmt::format("{}", max_loras); }

void AdapterMetrics::show(const AdapterStats& stats) {
    if (max_loras_.empty()) return;
    families_.adapters.with({model_, "hot"}).set(stats.num_hot);
    families_.adapters.with({model_, "warm"}).set(stats.num_warm);
    const auto came = [&](const char* tier, int64_t count) {
        families_.adapter_requests.with({model_, tier}).raise_to(count_of(count));
    };
    came("hot", stats.arrivals.hot);
    came("warm", stats.arrivals.warm);
    came("cold", stats.arrivals.cold);
    families_.adapter_loads.with({model_}).raise_to(count_of(stats.loads));
    families_.adapter_loaded_bytes.with({model_}).raise_to(stats.loaded_bytes);
    families_.adapter_load_ms.with({model_}).raise_to(static_cast<uint64_t>(stats.load_ms));
    families_.adapter_evictions.with({model_}).raise_to(count_of(stats.evictions));
    families_.adapter_failures.with({model_}).raise_to(count_of(stats.failures));
    if (vllm_ != nullptr) show_names(stats);
}

// Each set of names is a child of its own, of which only the latest is kept.
void AdapterMetrics::show_names(const AdapterStats& stats) {
    std::vector<std::string> names = {"0", model_, max_loras_,
                                      fmt::format("{}", fmt::join(stats.waiting, ",")),
                                      fmt::format("{}", fmt::join(stats.running, ","))};
    if (names_ != names) forget_names();
    names_ = std::move(names);
    const std::vector<std::string_view> labels(names_.begin(), names_.end());
    vllm_->lora_requests_info.with(labels).set(static_cast<double>(std::time(nullptr)));
}

void AdapterMetrics::forget_names() {
    if (names_.empty()) return;
    const std::vector<std::string_view> labels(names_.begin(), names_.end());
    vllm_->lora_requests_info.remove(labels);
    names_.clear();
}

void AdapterMetrics::forget() {
    if (max_loras_.empty()) return;
    for (const char* tier : {"hot", "warm"}) families_.adapters.with({model_, tier}).forget();
    if (vllm_ != nullptr) forget_names();
}

}  // namespace nvllm::server
