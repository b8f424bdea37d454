// Adapters as rows and as JSON.
#include "lib/view/adapter_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/units.h"
#include "lib/view/text_table.h"

namespace nvllm::view {

std::string adapters_text(const Snapshot& snapshot) {
    const AdapterStats& stats = snapshot.scheduler.adapters;
    TextSheet sheet;
    sheet.row("adapters", fmt::format("{} in slots (hot), {} in host memory alone (warm)",
                                      stats.num_hot, stats.num_warm));
    sheet.row("requests",
              fmt::format("found theirs hot {} times, warm {} and on disk (cold) {}",
                          stats.arrivals.hot, stats.arrivals.warm, stats.arrivals.cold));
    sheet.row("moves",
              fmt::format("{} loads of {} in all took {:.1f} ms, {} into slots of {} took {:.1f} "
                          "ms; {} out of slots, {} failures",
                          stats.loads, describe_bytes(stats.loaded_bytes), stats.load_ms,
                          stats.places, describe_bytes(stats.placed_bytes), stats.place_ms,
                          stats.evictions, stats.failures));
    if (snapshot.adapters.empty()) return sheet.text();
    sheet.gap();
    std::vector<std::vector<std::string>> rows = {
        {"adapter", "tier", "slot", "requests", "running", "size", "folder"}};
    for (const AdapterState& adapter : snapshot.adapters) {
        rows.push_back({adapter.name, adapter_tier_name(adapter.tier),
                        adapter.slot > 0 ? std::to_string(adapter.slot) : "-",
                        std::to_string(adapter.num_requests), std::to_string(adapter.num_running),
                        adapter.bytes > 0 ? describe_bytes(adapter.bytes) : "-", adapter.folder});
    }
    sheet.table(rows, "<<>>>><");
    return sheet.text();
}

nlohmann::ordered_json adapters_json(const Snapshot& snapshot) {
    const AdapterStats& stats = snapshot.scheduler.adapters;
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const AdapterState& adapter : snapshot.adapters) {
        rows.push_back({{"name", adapter.name},
                        {"tier", adapter_tier_name(adapter.tier)},
                        {"slot", adapter.slot},
                        {"requests", adapter.num_requests},
                        {"running_sequences", adapter.num_running},
                        {"bytes", adapter.bytes},
                        {"folder", adapter.folder}});
    }
    return {{"schema", "nvllm-inspect.adapters/1"},
            {"num_hot", stats.num_hot},
            {"num_warm", stats.num_warm},
            {"found_hot", stats.arrivals.hot},
            {"found_warm", stats.arrivals.warm},
            {"found_cold", stats.arrivals.cold},
            {"loads", stats.loads},
            {"loaded_bytes", stats.loaded_bytes},
            {"load_ms", stats.load_ms},
            {"places", stats.places},
            {"placed_bytes", stats.placed_bytes},
            {"place_ms", stats.place_ms},
            {"evictions", stats.evictions},
            {"failures", stats.failures},
            {"adapters", rows}};
}

}  // namespace nvllm::view
