// Which block of a product a thread takes after which.
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {

// Blocks of rows by ranges of columns, in the order in which threads take them. Where there are as
// many blocks of rows as threads, or a multiple of that, each thread gets rows of its own and all
// columns, so that what it reads is what it wrote in the products before; where there are fewer,
// several threads have a block of rows together.
class TileOrder {
  public:
    struct Block {
        int64_t rows;
        int64_t columns;
    };

    // How many threads share the columns of the same rows.
    static int threads_of_rows(int64_t row_blocks, int num_threads) {
        return static_cast<int>(num_threads / groups_of(row_blocks, num_threads));
    }

    // At least as many blocks of rows: where each thread can have some, as many for each.
    static int64_t row_blocks_for(int64_t row_blocks, int num_threads) {
        return row_blocks < num_threads ? row_blocks
                                        : divided_up(row_blocks, num_threads) * num_threads;
    }

    TileOrder(int64_t row_blocks, int64_t column_ranges, int num_threads)
        : blocks_of_group_(row_blocks / groups_of(row_blocks, num_threads)),
          items_of_group_(blocks_of_group_ * column_ranges),
          count_(row_blocks * column_ranges) {}

    int64_t count() const { return count_; }
    Block at(int64_t item) const {
        const int64_t in_group = item % items_of_group_;
        return {item / items_of_group_ * blocks_of_group_ + in_group % blocks_of_group_,
                in_group / blocks_of_group_};
    }

  private:
    static int64_t groups_of(int64_t row_blocks, int num_threads) {
        if (row_blocks % num_threads == 0) return num_threads;
        return num_threads % row_blocks == 0 ? row_blocks : 1;
    }

    int64_t blocks_of_group_;
    int64_t items_of_group_;
    int64_t count_;
};

}  // namespace nvllm::cpu
