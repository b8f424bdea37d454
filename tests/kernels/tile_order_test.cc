// Tests of the order of a product's blocks: each once, and rows that stay with a thread.
#include "kernels/cpu/matmul/tile_order.h"

#include <set>
#include <utility>
#include <vector>

#include "testing.h"

using nvllm::cpu::TileOrder;

TEST_CASE("a product's blocks come once each, and threads get rows of their own where they can") {
    for (const int threads : {1, 2, 3, 8}) {
        for (const int64_t wanted : {1, 2, 3, 5, 8, 16}) {
            const int64_t row_blocks = TileOrder::row_blocks_for(wanted, threads);
            REQUIRE(row_blocks >= wanted);
            const int together = TileOrder::threads_of_rows(row_blocks, threads);
            const int64_t ranges = int64_t{6} * together;
            const TileOrder order(row_blocks, ranges, threads);
            REQUIRE(order.count() == row_blocks * ranges);
            std::set<std::pair<int64_t, int64_t>> seen;
            std::vector<std::set<int64_t>> rows_of_thread(static_cast<size_t>(threads));
            for (int64_t i = 0; i < order.count(); ++i) {
                const TileOrder::Block block = order.at(i);
                REQUIRE((block.rows >= 0 && block.rows < row_blocks));
                REQUIRE((block.columns >= 0 && block.columns < ranges));
                seen.insert({block.rows, block.columns});
                rows_of_thread[static_cast<size_t>(i * threads / order.count())].insert(block.rows);
            }
            REQUIRE(seen.size() == static_cast<size_t>(order.count()));
            if (row_blocks % threads == 0) {
                CHECK(together == 1);
                for (const auto& rows : rows_of_thread) {
                    CHECK(rows.size() == static_cast<size_t>(row_blocks / threads));
                }
            } else if (threads % row_blocks == 0) {
                CHECK(together == threads / row_blocks);
                for (const auto& rows : rows_of_thread) CHECK(rows.size() == 1);
            } else {
                CHECK(together == threads);
            }
        }
    }
}
