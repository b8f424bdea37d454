// A cache as text and as JSON.
#include "lib/view/cache_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/units.h"
#include "lib/view/block_map.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

constexpr int32_t kColumns = 64;
constexpr int32_t kRows = 16;
constexpr size_t kSharedShown = 8;
constexpr size_t kOwnersShown = 8;

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

std::string describe_counts(const BlockCounts& counts) {
    return fmt::format("{} of {} used ({}), {} cached, {} free", with_separators(counts.used),
                       with_separators(counts.total),
                       percent(counts.total > 0 ? double(counts.used) / counts.total : 0.0),
                       with_separators(counts.cached), with_separators(counts.free));
}

void add_stats(const CacheGroupStats& stats, TextSheet& sheet) {
    sheet.row("blocks", describe_counts(stats.blocks));
    sheet.row("references",
              fmt::format("{}, sharing saves {} blocks for each used one",
                          with_separators(stats.references), fmt::format("{:.2f}", stats.sharing)));
    sheet.row("waste", fmt::format("{} positions in last blocks ({} of those in used blocks)",
                                   with_separators(stats.waste_slots), percent(stats.waste)));
    sheet.row("fragmentation", fmt::format("{:.2f}, longest run of unused blocks {}",
                                           stats.fragmentation, stats.longest_unused_run));
    sheet.row("evictions", with_separators(stats.blocks.evictions));
    if (stats.host_total > 0) {
        sheet.row("host blocks", fmt::format("{} of {} used, {} of them by the prefix cache",
                                             stats.host_used, stats.host_total, stats.host_cached));
    }
}

void add_map(const GroupSnapshot& group, bool every_block, TextSheet& sheet) {
    const BlockMap map = block_map(group, kColumns, every_block ? 0 : kRows);
    for (size_t row = 0; row < map.rows.size(); ++row) {
        const int64_t first = static_cast<int64_t>(row) * kColumns * map.blocks_per_letter;
        sheet.line(fmt::format("  {:>9}  {}", first, map.rows[row]));
    }
    sheet.line(fmt::format("  {:>9}  {}", "", kBlockLegend));
    if (map.blocks_per_letter > 1) {
        sheet.line(
            fmt::format("  {:>9}  each letter is what most of {} blocks are (--all: every "
                        "block)",
                        "", map.blocks_per_letter));
    }
}

std::string list_owners(const std::vector<SequenceId>& owners) {
    const size_t shown = std::min(owners.size(), kOwnersShown);
    std::string text =
        fmt::format("{}", fmt::join(owners.begin(), owners.begin() + long(shown), ", "));
    if (owners.size() > shown) text += fmt::format(" and {} more", owners.size() - shown);
    return text;
}

// The blocks with most references.
void add_shared(const Snapshot& snapshot, int32_t place, TextSheet& sheet) {
    const GroupSnapshot& group = snapshot.groups[static_cast<size_t>(place)];
    std::vector<size_t> blocks;
    for (size_t block = 0; block < group.references.size(); ++block) {
        if (group.references[block] > 1) blocks.push_back(block);
    }
    if (blocks.empty()) return;
    std::ranges::stable_sort(blocks, std::greater<>(),
                             [&](size_t block) { return group.references[block]; });
    const auto owners = block_owners(snapshot, place);
    sheet.row("shared", fmt::format("{} blocks; those with most references:", blocks.size()));
    blocks.resize(std::min(blocks.size(), kSharedShown));
    std::vector<std::vector<std::string>> rows = {{"block", "references", "sequences"}};
    for (const size_t block : blocks) {
        rows.push_back({std::to_string(block), std::to_string(group.references[block]),
                        list_owners(owners[block])});
    }
    sheet.table(rows, ">><");
}

void add_owners(const Snapshot& snapshot, TextSheet& sheet) {
    std::vector<std::vector<std::string>> rows = {
        {"sequence", "request", "state", "blocks", "shared", "published"}};
    for (const SequenceSnapshot& sequence : snapshot.sequences) {
        size_t blocks = 0;
        size_t shared = 0;
        for (size_t group = 0; group < sequence.tables.size(); ++group) {
            const auto& references = snapshot.groups[group].references;
            const auto& held = sequence.tables[group].blocks;
            blocks += held.size();
            shared += static_cast<size_t>(std::ranges::count_if(
                held, [&](int32_t block) { return references[static_cast<size_t>(block)] > 1; }));
        }
        if (blocks == 0) continue;
        rows.push_back({std::to_string(sequence.id), std::to_string(sequence.request),
                        sequence_state_name(sequence.state), std::to_string(blocks),
                        std::to_string(shared), std::to_string(sequence.num_published_blocks)});
    }
    if (rows.size() == 1) {
        sheet.row("owners", "no sequence holds a block");
        return;
    }
    sheet.row("owners", fmt::format("{} sequences", rows.size() - 1));
    sheet.table(rows, ">><>>>");
}

void add_tier(const std::string& where, const TierStats& tier, TextSheet& sheet) {
    if (tier.blocks_held + tier.blocks_kept == 0) return;
    sheet.row(where,
              fmt::format("{} blocks, {} of the tokens found; {} kept since the start, {} brought "
                          "back, {} dropped",
                          with_separators(tier.blocks_held), with_separators(tier.hit_tokens),
                          with_separators(tier.blocks_kept), with_separators(tier.blocks_back),
                          with_separators(tier.blocks_dropped)));
}

nlohmann::ordered_json tier_json(const TierStats& stats) {
    return {{"blocks_held", stats.blocks_held},
            {"blocks_kept", stats.blocks_kept},
            {"blocks_back", stats.blocks_back},
            {"blocks_dropped", stats.blocks_dropped},
            {"hit_tokens", stats.hit_tokens}};
}

nlohmann::ordered_json stats_json(const CacheGroupStats& stats) {
    return {
        {"total", stats.blocks.total},          {"used", stats.blocks.used},
        {"cached", stats.blocks.cached},        {"free", stats.blocks.free},
        {"evictions", stats.blocks.evictions},  {"utilisation", stats.utilisation},
        {"references", stats.references},       {"sharing", stats.sharing},
        {"waste_slots", stats.waste_slots},     {"waste", stats.waste},
        {"fragmentation", stats.fragmentation}, {"longest_unused_run", stats.longest_unused_run},
        {"host_total", stats.host_total},       {"host_used", stats.host_used},
        {"host_cached", stats.host_cached}};
}

}  // namespace

std::string cache_text(const Snapshot& snapshot, bool every_block) {
    TextSheet sheet;
    const DetailedCacheStats& cache = snapshot.cache;
    sheet.row("engine", fmt::format("{}, after {} steps", snapshot.config.model,
                                    with_separators(snapshot.scheduler.steps)));
    sheet.row("cache", fmt::format("blocks of {} tokens, eviction {}, prefix caching {}",
                                   snapshot.config.block_size, snapshot.config.eviction_policy,
                                   snapshot.config.enable_prefix_caching ? "on" : "off"));
    sheet.row("hits", fmt::format("{} of {} tokens of prompts that came in ({})",
                                  with_separators(cache.hit_tokens),
                                  with_separators(cache.queried_tokens), percent(cache.hit_rate)));
    add_tier("in host memory", cache.host_tier, sheet);
    add_tier("on disk", cache.disk_tier, sheet);
    sheet.row("contents", fmt::format("{} blocks' worth known, {} private copies, {} duplicates "
                                      "freed",
                                      with_separators(cache.num_contents), cache.num_private_copies,
                                      cache.num_duplicates_freed));
    for (size_t place = 0; place < snapshot.groups.size(); ++place) {
        const GroupSnapshot& group = snapshot.groups[place];
        sheet.gap();
        sheet.line(fmt::format("Group {}: {}", place,
                               group.keeps_states ? std::string("states, one of a sequence")
                               : group.window > 0 ? fmt::format("a window of {}", group.window)
                                                  : std::string("all positions")));
        add_stats(group.stats, sheet);
        add_map(group, every_block, sheet);
        add_shared(snapshot, static_cast<int32_t>(place), sheet);
    }
    sheet.gap();
    add_owners(snapshot, sheet);
    return sheet.text();
}

nlohmann::ordered_json cache_json(const Snapshot& snapshot) {
    using Json = nlohmann::ordered_json;
    Json groups = Json::array();
    for (size_t place = 0; place < snapshot.groups.size(); ++place) {
        const GroupSnapshot& group = snapshot.groups[place];
        const auto owners = block_owners(snapshot, static_cast<int32_t>(place));
        Json blocks = Json::array();
        for (size_t block = 0; block < group.states.size(); ++block) {
            if (group.states[block] == BlockState::free) continue;
            blocks.push_back({{"block", block},
                              {"state", block_state_name(group.states[block])},
                              {"references", group.references[block]},
                              {"owners", owners[block]}});
        }
        Json json = {{"window", group.window}, {"keeps_states", group.keeps_states}};
        json.update(stats_json(group.stats));
        json["blocks"] = std::move(blocks);
        groups.push_back(std::move(json));
    }
    return {{"schema", "nvllm-inspect.cache/1"},
            {"model", snapshot.config.model},
            {"steps", snapshot.scheduler.steps},
            {"block_size", snapshot.config.block_size},
            {"eviction_policy", snapshot.config.eviction_policy},
            {"queried_tokens", snapshot.cache.queried_tokens},
            {"hit_tokens", snapshot.cache.hit_tokens},
            {"hit_rate", snapshot.cache.hit_rate},
            {"tiers",
             {{"host", tier_json(snapshot.cache.host_tier)},
              {"disk", tier_json(snapshot.cache.disk_tier)}}},
            {"num_contents", snapshot.cache.num_contents},
            {"num_private_copies", snapshot.cache.num_private_copies},
            {"num_duplicates_freed", snapshot.cache.num_duplicates_freed},
            {"total", stats_json(snapshot.cache.total)},
            {"groups", groups}};
}

}  // namespace nvllm::view
