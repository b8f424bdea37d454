// Tests of ranges that get shorter: all items once, sizes, ends.
#include "kernels/cpu/matmul/guided_ranges.h"

#include <algorithm>
#include <vector>

#include "testing.h"

using nvllm::cpu::divided_up;
using nvllm::cpu::GuidedRanges;

namespace {

std::vector<int64_t> sizes_of(const GuidedRanges& ranges) {
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < ranges.count(); ++i) sizes.push_back(ranges.at(i).size());
    return sizes;
}

}  // namespace

TEST_CASE("tapered ranges hold all items once, none more than half of what is left of its share") {
    for (const int threads : {1, 2, 3, 16}) {
        for (const int64_t least : {1, 4, 96}) {
            for (const int64_t most : {least, 2 * least, 7 * least, 1000 * least}) {
                for (const int64_t items : {1, 2, 5, 64, 97, 1000, 4096, 151936}) {
                    const GuidedRanges ranges(items, least, most, threads);
                    REQUIRE(ranges.count() % threads == 0);
                    const int64_t of_share = ranges.count() / threads;
                    const int64_t fair = divided_up(items, threads);
                    const int64_t share = divided_up(fair, least) * least;
                    int64_t end = 0;
                    for (int64_t i = 0; i < ranges.count(); ++i) {
                        const GuidedRanges::Range range = ranges.at(i);
                        const int64_t size = range.size();
                        REQUIRE(range.begin == end);
                        REQUIRE(size <= most);
                        const int64_t left = (i / of_share + 1) * share - range.begin;
                        REQUIRE((size <= least || 2 * size <= left));
                        REQUIRE((size % least == 0 || range.end == items));
                        const GuidedRanges::Range after = ranges.after(i);
                        const bool ends_share = i % of_share == of_share - 1;
                        REQUIRE(after.size() == (ends_share ? 0 : ranges.at(i + 1).size()));
                        REQUIRE((after.size() == 0 || after.begin == range.end));
                        end = range.end;
                    }
                    REQUIRE(end == items);
                    REQUIRE(ranges.at(of_share - 1).end == std::min(share, items));
                    REQUIRE(ranges.at(ranges.count()).size() == 0);
                    REQUIRE(ranges.at(ranges.count() + 100).size() == 0);
                }
            }
        }
    }
    CHECK(GuidedRanges(0, 4, 8, 2).count() == 0);
}

TEST_CASE("tapered ranges of a share halve, down to the least") {
    CHECK(sizes_of(GuidedRanges(64, 2, 64, 2)) ==
          std::vector<int64_t>{16, 8, 4, 2, 2, 16, 8, 4, 2, 2});
    CHECK(sizes_of(GuidedRanges(64, 4, 8, 2)) ==
          std::vector<int64_t>{8, 8, 8, 4, 4, 8, 8, 8, 4, 4});
    CHECK(sizes_of(GuidedRanges(10, 4, 4, 2)) == std::vector<int64_t>{4, 4, 2, 0});
}
