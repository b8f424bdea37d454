// A cache as a picture: one square a block.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lib/plot/svg_picture.h"
#include "lib/view/cache_report.h"

namespace nvllm::view {
namespace {

constexpr double kWidth = 820.0;
constexpr double kMargin = 20.0;
// Beyond this many squares a picture shows no more, only larger files.
constexpr size_t kMaxSquares = 20'000;

SvgColor ink_of(BlockState state, int32_t references) {
    switch (state) {
        case BlockState::free:
            return SvgColor::empty;
        case BlockState::cached:
            return SvgColor::series_5;
        case BlockState::used:
            return SvgColor::series_1;
        case BlockState::published:
            return references > 1 ? SvgColor::series_3 : SvgColor::series_0;
    }
    return SvgColor::empty;
}

double legend(SvgPicture& picture, double y) {
    const std::pair<SvgColor, const char*> entries[] = {
        {SvgColor::empty, "free"},
        {SvgColor::series_5, "cached"},
        {SvgColor::series_1, "used"},
        {SvgColor::series_0, "used and findable"},
        {SvgColor::series_3, "shared (number: by how many)"}};
    double x = kMargin;
    for (const auto& [color, label] : entries) {
        picture.rectangle(x, y - 10.0, 12.0, 12.0, color);
        picture.text(x + 18.0, y, label);
        x += 40.0 + 7.0 * static_cast<double>(std::string_view(label).size());
    }
    return y + 20.0;
}

struct Grid {
    size_t shown = 0;
    size_t columns = 0;
    double side = 0.0;
    double height = 0.0;
};

Grid grid_of(const GroupSnapshot& group) {
    Grid grid;
    grid.shown = std::min(group.states.size(), kMaxSquares);
    const double area = (kWidth - 2.0 * kMargin) * 600.0 / static_cast<double>(grid.shown);
    grid.side = std::clamp(std::sqrt(area), 5.0, 24.0);
    grid.columns = static_cast<size_t>((kWidth - 2.0 * kMargin) / grid.side);
    const size_t rows = (grid.shown + grid.columns - 1) / grid.columns;
    grid.height = static_cast<double>(rows) * grid.side;
    return grid;
}

void draw_group(const Snapshot& snapshot, size_t place, double y, SvgPicture& picture) {
    const GroupSnapshot& group = snapshot.groups[place];
    const Grid grid = grid_of(group);
    const auto owners = block_owners(snapshot, static_cast<int32_t>(place));
    for (size_t block = 0; block < grid.shown; ++block) {
        const size_t row = block / grid.columns;
        const size_t column = block % grid.columns;
        const double left = kMargin + static_cast<double>(column) * grid.side;
        const double top = y + static_cast<double>(row) * grid.side;
        std::string tip = fmt::format("block {}: {}", block, block_state_name(group.states[block]));
        if (!owners[block].empty()) {
            tip += fmt::format(", sequences {}", fmt::join(owners[block], ", "));
        }
        picture.rectangle(left, top, grid.side - 1.0, grid.side - 1.0,
                          ink_of(group.states[block], group.references[block]), tip);
        if (group.references[block] > 1 && grid.side >= 14.0) {
            picture.text(left + grid.side / 2.0, top + grid.side * 0.68,
                         std::to_string(group.references[block]), grid.side * 0.5, SvgColor::text,
                         "middle");
        }
    }
}

}  // namespace

std::string cache_svg(const Snapshot& snapshot) {
    double height = 80.0;
    for (const GroupSnapshot& group : snapshot.groups) height += grid_of(group).height + 40.0;
    SvgPicture picture(kWidth, height, "Blocks of the key-value cache");
    picture.text(kMargin, 28.0,
                 fmt::format("{}: key-value cache after {} steps, {:.1f} % of prompt tokens found",
                             snapshot.config.model, snapshot.scheduler.steps,
                             100.0 * snapshot.cache.hit_rate),
                 15.0);
    double y = legend(picture, 54.0);
    for (size_t place = 0; place < snapshot.groups.size(); ++place) {
        const GroupSnapshot& group = snapshot.groups[place];
        const BlockCounts& counts = group.stats.blocks;
        picture.text(kMargin, y + 16.0,
                     fmt::format("group {}: {} blocks, {} used, {} cached, {} free{}", place,
                                 counts.total, counts.used, counts.cached, counts.free,
                                 group.states.size() > kMaxSquares
                                     ? fmt::format("; the first {}", kMaxSquares)
                                     : ""),
                     12.0, SvgColor::faint);
        draw_group(snapshot, place, y + 24.0, picture);
        y += grid_of(group).height + 40.0;
    }
    return picture.finish();
}

}  // namespace nvllm::view
