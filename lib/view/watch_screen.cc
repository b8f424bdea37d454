// The layout of the full-screen view.
#include "lib/view/watch_screen.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/units.h"
#include "lib/view/block_map.h"
#include "lib/view/request_report.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

constexpr int kBar = 24;
constexpr int kMapRows = 4;

// "[####--....]": `full` of `total` as '#', then `half` as '-'.
std::string bar(int64_t full, int64_t half, int64_t total) {
    const auto cells = [&](int64_t part) {
        return total == 0 ? 0 : static_cast<size_t>((part * kBar + total - 1) / total);
    };
    const size_t first = std::min<size_t>(cells(full), kBar);
    const size_t second = std::min(cells(half), kBar - first);
    return "[" + std::string(first, '#') + std::string(second, '-') +
           std::string(kBar - first - second, '.') + "]";
}

std::string rates(const Snapshot& now, const Snapshot* before) {
    if (before == nullptr || now.now_s <= before->now_s) return "";
    const double seconds = now.now_s - before->now_s;
    const auto rate = [&](int64_t one, int64_t other) {
        return static_cast<double>(one - other) / seconds;
    };
    return fmt::format("  {:.0f} steps/s  {:.0f} tokens/s",
                       rate(now.scheduler.steps, before->scheduler.steps),
                       rate(now.scheduler.scheduled_tokens, before->scheduler.scheduled_tokens));
}

std::vector<std::string> head(const Snapshot& now, const Snapshot* before) {
    const SchedulerStats& stats = now.scheduler;
    const BlockCounts& blocks = now.cache.total.blocks;
    return {
        fmt::format("{}  {}/{}  step {}{}", now.config.model, now.config.scheduling_policy,
                    now.config.eviction_policy, with_separators(stats.steps), rates(now, before)),
        fmt::format("slots  {} {} of {} run, {} wait, {} paused; {} preemptions",
                    bar(stats.num_running, 0, now.config.max_num_seqs), stats.num_running,
                    now.config.max_num_seqs, stats.num_waiting, stats.num_paused,
                    stats.preemptions),
        fmt::format("blocks {} {} used, {} cached, {} free",
                    bar(blocks.used, blocks.cached, blocks.total), blocks.used, blocks.cached,
                    blocks.free),
        fmt::format("found {:.1f} % of prompts, {} evictions, waste {:.1f} %, shared {:.2f}, "
                    "fragmented {:.2f}",
                    100.0 * now.cache.hit_rate, with_separators(blocks.evictions),
                    100.0 * now.cache.total.waste, now.cache.total.sharing,
                    now.cache.total.fragmentation)};
}

void add_map(const Snapshot& now, int columns, std::vector<std::string>& lines) {
    const auto rows = std::max<int32_t>(1, kMapRows / static_cast<int32_t>(now.groups.size()));
    for (const GroupSnapshot& group : now.groups) {
        const BlockMap map = block_map(group, std::max(8, columns), rows);
        lines.insert(lines.end(), map.rows.begin(), map.rows.end());
    }
}

void add_requests(const Snapshot& now, size_t room, std::vector<std::string>& lines) {
    TextSheet sheet;
    std::vector<std::vector<std::string>> rows = {request_headings()};
    const size_t total = now.sequences.size();
    const size_t shown = total + 1 <= room ? total : room > 2 ? room - 2 : 0;
    for (size_t i = 0; i < shown; ++i) rows.push_back(request_cells(now.sequences[i], now.now_s));
    sheet.table(rows, kRequestSides);
    const std::string& text = sheet.text();
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = text.find('\n', begin);
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    if (shown < total) lines.push_back(fmt::format("  ... and {} more", total - shown));
}

}  // namespace

std::vector<std::string> watch_lines(const Snapshot& now, const Snapshot* before, int columns,
                                     int rows) {
    std::vector<std::string> lines = head(now, before);
    lines.emplace_back();
    add_map(now, columns, lines);
    lines.emplace_back();
    const auto height = static_cast<size_t>(std::max(1, rows));
    if (lines.size() + 1 < height) add_requests(now, height - 1 - lines.size(), lines);
    lines.resize(height - 1);
    lines.push_back("q quits    blocks: . free  - cached  o used  O findable  2..9+ shared");
    for (std::string& line : lines) {
        line = printable(line);
        line.resize(std::min(line.size(), static_cast<size_t>(std::max(1, columns))));
    }
    return lines;
}

}  // namespace nvllm::view
