// Block copies and table changes, as plain data for the workers.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/cache/block_pool.h"

namespace nvllm {

// Copy one block's content, all layers of the group.
struct BlockMove {
    int32_t group = 0;
    BlockId from = 0;
    BlockId to = 0;

    bool operator==(const BlockMove&) const = default;
};

// Entry `index` of the owner's table in the group becomes this block.
struct TableChange {
    uint64_t owner = 0;
    int32_t group = 0;
    int32_t index = 0;
    BlockId block = 0;

    bool operator==(const TableChange&) const = default;
};

struct Compaction {
    // To run before anything else of the next plan. No block is both read and written: their order
    // does not matter.
    std::vector<BlockMove> moves;
    std::vector<TableChange> changes;
    int32_t num_dropped = 0;  // cached blocks that did not fit and were evicted
};

struct CompactionCounts {
    int64_t compactions = 0;
    int64_t moved_blocks = 0;
    int64_t dropped_blocks = 0;
};

}  // namespace nvllm
