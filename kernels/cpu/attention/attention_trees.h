// What the rows of a tree of drafts see of their step.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention_items.h"

namespace nvllm::cpu {

// Which rows of its step each row of an item sees, bit by bit: of every query for each head of the
// group. REQUIRES: the item's sequence is a tree.
void find_ancestors(const AttentionBatch& batch, const AttentionItem& item, uint64_t* ancestors);

struct TreeRows {
    const uint64_t* ancestors;
    uint64_t* seen;
    int64_t count;
};

// The same of the positions of a tile, where all that was cached before the step is seen.
void set_seen(const AttentionBatch& batch, const AttentionItem& item, int64_t tile,
              const TreeRows& rows);

}  // namespace nvllm::cpu
