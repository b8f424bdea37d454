// Draws adapters, and sorts requests by tier.
#include "lib/measure/adapter_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/base/random_source.h"
#include "lib/base/statistics.h"
#include "lib/base/units.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

// Sums of weights up to each adapter.
std::vector<double> cumulative_weights(const AdapterChoice& choice, size_t count) {
    std::vector<double> sums;
    double sum = 0.0;
    for (size_t i = 0; i < count; ++i) {
        sum += choice.rule == "zipf" ? std::pow(static_cast<double>(i + 1), -choice.skew) : 1.0;
        sums.push_back(sum);
    }
    return sums;
}

struct TierRow {
    const char* name;
    const std::vector<double> AdapterLoad::*times;
};
constexpr std::array kRows = {
    TierRow{"hot", &AdapterLoad::hot_ms}, TierRow{"warm", &AdapterLoad::warm_ms},
    TierRow{"cold", &AdapterLoad::cold_ms}, TierRow{"none", &AdapterLoad::without_ms}};

double share_of(const AdapterLoad& load, const TierRow& row) {
    const size_t all = load.hot_ms.size() + load.warm_ms.size() + load.cold_ms.size();
    return all == 0 ? 0.0
                    : static_cast<double>((load.*row.times).size()) / static_cast<double>(all);
}

}  // namespace

void choose_adapters(const AdapterChoice& choice, std::span<const std::string> adapters,
                     uint64_t seed, std::span<WorkItem> items) {
    if (adapters.empty()) return;
    RandomSource random(seed);
    const std::vector<double> sums = cumulative_weights(choice, adapters.size());
    for (size_t i = 0; i < items.size(); ++i) {
        const bool has_none = random.unit() < choice.share_without;
        const double place = random.unit() * sums.back();
        const auto drawn = std::ranges::upper_bound(sums, place) - sums.begin();
        const size_t index = choice.rule == "round-robin"
                                 ? i % adapters.size()
                                 : std::min(static_cast<size_t>(drawn), adapters.size() - 1);
        if (!has_none) items[i].adapter = adapters[index];
    }
}

AdapterLoad adapter_load(std::span<const LoadResult> runs, const AdapterStats& stats) {
    AdapterLoad load;
    load.stats = stats;
    for (const LoadResult& run : runs) {
        for (const RequestRecord& request : run.requests) {
            if (request.token_times_s.empty()) continue;
            const double ms = 1000.0 * (request.first_token_s() - request.sent_s);
            if (!request.adapter_tier) {
                load.without_ms.push_back(ms);
            } else if (*request.adapter_tier == AdapterTier::hot) {
                load.hot_ms.push_back(ms);
            } else if (*request.adapter_tier == AdapterTier::warm ||
                       *request.adapter_tier == AdapterTier::placing) {
                load.warm_ms.push_back(ms);
            } else {
                load.cold_ms.push_back(ms);
            }
        }
    }
    return load;
}

Json adapters_json(const AdapterLoad& load) {
    Json json = Json::object();
    for (const TierRow& row : kRows) {
        const std::vector<double>& times = load.*row.times;
        json[row.name] = {{"requests", times.size()},
                          {"median_ttft_ms", median(times)},
                          {"p99_ttft_ms", percentile(times, 99.0)}};
    }
    const AdapterStats& stats = load.stats;
    json["loads"] = stats.loads;
    json["loaded_bytes"] = stats.loaded_bytes;
    json["load_ms"] = stats.load_ms;
    json["places"] = stats.places;
    json["placed_bytes"] = stats.placed_bytes;
    json["place_ms"] = stats.place_ms;
    json["evictions"] = stats.evictions;
    return json;
}

std::string adapters_table(const AdapterLoad& load) {
    std::string text = fmt::format("\n{:<12} {:>9} {:>8} {:>16} {:>16}\n", "adapter was",
                                   "requests", "share", "median TTFT ms", "p99 TTFT ms");
    for (const TierRow& row : kRows) {
        const std::vector<double>& times = load.*row.times;
        if (times.empty()) continue;
        const std::string share = row.times == &AdapterLoad::without_ms
                                      ? "-"
                                      : fmt::format("{:.1f} %", 100.0 * share_of(load, row));
        text += fmt::format("{:<12} {:>9} {:>8} {:>16.1f} {:>16.1f}\n", row.name, times.size(),
                            share, median(times), percentile(times, 99.0));
    }
    const AdapterStats& stats = load.stats;
    text += fmt::format("Adapters: {} loads of {} in {:.1f} ms", stats.loads,
                        describe_bytes(stats.loaded_bytes), stats.load_ms);
    if (stats.load_ms > 0.0) {
        text += fmt::format(" ({:.2f} GB/s)",
                            static_cast<double>(stats.loaded_bytes) / stats.load_ms / 1e6);
    }
    text += fmt::format(", {} into slots of {} in {:.1f} ms, {} out of slots\n", stats.places,
                        describe_bytes(stats.placed_bytes), stats.place_ms, stats.evictions);
    return text;
}

}  // namespace nvllm
