// A prefix tree as text, JSON and picture.
#include "lib/view/tree_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/units.h"
#include "lib/plot/svg_picture.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

constexpr size_t kMaxIndent = 16;
constexpr size_t kTokensShown = 5;
constexpr double kWidth = 900.0;
constexpr double kMargin = 20.0;
constexpr double kRowHeight = 18.0;
constexpr int64_t kMaxLeaves = 2000;

void require_tree(const Snapshot& snapshot) {
    if (snapshot.has_tree) return;
    throw Error(ErrorKind::bad_data, "this snapshot was taken without the prefix tree");
}

bool keeps_states(const Snapshot& snapshot) {
    return std::ranges::any_of(snapshot.groups, &GroupSnapshot::keeps_states);
}

// Of the groups of one kind.
size_t num_blocks(const Snapshot& snapshot, const RunSnapshot& run, bool of_states) {
    size_t count = 0;
    for (size_t group = 0; group < run.blocks.size(); ++group) {
        if (snapshot.groups[group].keeps_states == of_states) count += run.blocks[group].size();
    }
    return count;
}

// Runs above each.
std::vector<size_t> levels_of(const Snapshot& snapshot) {
    std::vector<size_t> levels;
    for (const RunSnapshot& run : snapshot.runs) {
        levels.push_back(run.parent ? levels[static_cast<size_t>(*run.parent)] + 1 : 0);
    }
    return levels;
}

std::string first_tokens(const RunSnapshot& run) {
    std::vector<int32_t> shown = run.first_tokens;
    shown.resize(std::min(shown.size(), kTokensShown));
    return fmt::format("{}{}{}", run.has_extra ? "(salted) " : "", fmt::join(shown, " "),
                       run.num_tokens > static_cast<int32_t>(shown.size()) ? " .." : "");
}

std::string indented(size_t level, size_t place) {
    const size_t shown = std::min(level, kMaxIndent);
    return std::string(shown, ' ') + (level > 0 ? "`" : "") + std::to_string(place);
}

// Leaves below each run, itself when it is one.
std::vector<int64_t> leaves_of(const Snapshot& snapshot) {
    std::vector<int64_t> leaves(snapshot.runs.size(), 0);
    for (size_t place = snapshot.runs.size(); place-- > 0;) {
        leaves[place] = std::max<int64_t>(1, leaves[place]);
        const auto& parent = snapshot.runs[place].parent;
        if (parent) leaves[static_cast<size_t>(*parent)] += leaves[place];
    }
    return leaves;
}

}  // namespace

std::string tree_text(const Snapshot& snapshot) {
    require_tree(snapshot);
    TextSheet sheet;
    int64_t tokens = 0;
    for (const RunSnapshot& run : snapshot.runs) tokens += run.num_tokens;
    sheet.row("prefix tree",
              fmt::format("{} runs, {} tokens known, {} blocks asked for so far",
                          with_separators(static_cast<int64_t>(snapshot.runs.size())),
                          with_separators(tokens), with_separators(snapshot.tick)));
    if (snapshot.runs.empty()) return sheet.text();
    sheet.row("",
              "age: blocks asked for since its latest use; held: blocks that hold any of it; "
              "refs: by sequences; soon: waiting sequences that will ask for it");
    const bool has_states = keeps_states(snapshot);
    if (has_states) {
        sheet.row("",
                  "states: places where a prompt can go on; behind the last of them it is "
                  "computed again");
    }
    sheet.gap();
    std::vector<std::vector<std::string>> rows = {
        {"run", "from", "tokens", "held", "hits", "age", "refs", "soon"}};
    std::string columns = "<>>>>>>>";
    if (has_states) {
        rows.front().push_back("states");
        columns += '>';
    }
    rows.front().push_back("begins with");
    columns += '<';
    const std::vector<size_t> levels = levels_of(snapshot);
    for (size_t place = 0; place < snapshot.runs.size(); ++place) {
        const RunSnapshot& run = snapshot.runs[place];
        rows.push_back({indented(levels[place], place),
                        std::to_string(int64_t{run.first_depth} * snapshot.config.block_size),
                        std::to_string(run.num_tokens),
                        std::to_string(num_blocks(snapshot, run, false)),
                        std::to_string(run.num_hits), std::to_string(snapshot.tick - run.last_use),
                        std::to_string(run.references), std::to_string(run.num_expected)});
        if (has_states) rows.back().push_back(std::to_string(num_blocks(snapshot, run, true)));
        rows.back().push_back(first_tokens(run));
    }
    sheet.table(rows, columns);
    return sheet.text();
}

nlohmann::ordered_json tree_json(const Snapshot& snapshot) {
    require_tree(snapshot);
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const RunSnapshot& run : snapshot.runs) {
        runs.push_back({{"parent", run.parent ? nlohmann::ordered_json(*run.parent)
                                              : nlohmann::ordered_json(nullptr)},
                        {"first_position", int64_t{run.first_depth} * snapshot.config.block_size},
                        {"tokens", run.num_tokens},
                        {"first_tokens", run.first_tokens},
                        {"has_extra", run.has_extra},
                        {"hits", run.num_hits},
                        {"age", snapshot.tick - run.last_use},
                        {"expected", run.num_expected},
                        {"references", run.references},
                        {"states", num_blocks(snapshot, run, true)},
                        {"blocks", run.blocks}});
    }
    return {{"schema", "nvllm-inspect.tree/1"},
            {"block_size", snapshot.config.block_size},
            {"tick", snapshot.tick},
            {"runs", runs}};
}

std::string tree_svg(const Snapshot& snapshot) {
    require_tree(snapshot);
    const std::vector<int64_t> leaves = leaves_of(snapshot);
    int64_t num_leaves = 0;
    int64_t longest = 1;
    int64_t most_hits = 1;
    for (size_t place = 0; place < snapshot.runs.size(); ++place) {
        const RunSnapshot& run = snapshot.runs[place];
        if (!run.parent) num_leaves += leaves[place];
        longest = std::max(longest, int64_t{run.first_depth} + run.num_contents);
        most_hits = std::max(most_hits, run.num_hits);
    }
    const int64_t shown = std::min(num_leaves, kMaxLeaves);
    SvgPicture picture(kWidth, 90.0 + kRowHeight * static_cast<double>(shown), "Prefix tree");
    picture.text(
        kMargin, 26.0,
        fmt::format("{}: prefix tree, {} runs", snapshot.config.model, snapshot.runs.size()), 15.0);
    picture.text(kMargin, 46.0,
                 fmt::format("left to right: positions 0 to {}; the stronger, the more hits (most: "
                             "{}); grey: no block holds it any more; h: hits",
                             longest * snapshot.config.block_size, most_hits),
                 12.0, SvgColor::faint);
    const double scale = (kWidth - 2.0 * kMargin) / static_cast<double>(longest);
    std::vector<int64_t> next_row(snapshot.runs.size(), 0);
    int64_t next_root = 0;
    for (size_t place = 0; place < snapshot.runs.size(); ++place) {
        const RunSnapshot& run = snapshot.runs[place];
        int64_t& place_of_next =
            run.parent ? next_row[static_cast<size_t>(*run.parent)] : next_root;
        const int64_t row = place_of_next;
        place_of_next += leaves[place];
        next_row[place] = row;
        if (row >= shown) continue;
        const double left = kMargin + scale * run.first_depth;
        const double top = 60.0 + kRowHeight * static_cast<double>(row);
        const double width = std::max(2.0, scale * run.num_contents - 1.0);
        const double height =
            kRowHeight * static_cast<double>(std::min(leaves[place], shown - row)) - 1.0;
        const double warmth = std::log1p(static_cast<double>(run.num_hits)) /
                              std::log1p(static_cast<double>(most_hits));
        picture.rectangle(
            left, top, width, height,
            num_blocks(snapshot, run, false) == 0 ? SvgColor::faint : SvgColor::series_0,
            fmt::format("run {}: {} tokens, {} hits, {} blocks", place, run.num_tokens,
                        run.num_hits, num_blocks(snapshot, run, false)),
            num_blocks(snapshot, run, false) == 0 ? 0.3 : 0.25 + 0.6 * warmth);
        if (width > 60.0) {
            picture.text(left + 4.0, top + std::min(height, kRowHeight) - 5.0,
                         fmt::format("{} tokens, {} h", run.num_tokens, run.num_hits), 11.0);
        }
    }
    return picture.finish();
}

}  // namespace nvllm::view
