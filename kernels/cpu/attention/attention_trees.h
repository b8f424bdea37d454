// Runs of rows of a tree of drafts. Each row that follows the one before it goes on with its run,
// which is computed as a text: the rows that it descends from lie where its positions would.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention_items.h"

namespace nvllm::cpu {

class TreeOfRows {
  public:
    // REQUIRES: batch.is_tree(sequence); the batch outlives it.
    TreeOfRows(const AttentionBatch& batch, int64_t sequence);

    // The first query behind the run that query `first` of the sequence begins.
    int64_t run_end(int64_t first) const;
    // Of run `index`, with all positions that it sees.
    AttentionItem item(int64_t index, int64_t kv_head) const;

  private:
    // Row of the tree; below 0 in the text before it.
    int64_t row_of(int64_t query) const { return first_row_ + query; }
    bool follows(int64_t query) const;
    int64_t parent_of(int64_t row) const;
    int64_t depth_of(int64_t row) const;

    const AttentionBatch& batch_;
    int64_t sequence_;
    int64_t tree_begin_;  // position of the tree's first row
    int64_t first_row_;   // of the first query
    const int32_t* parents_;
};

}  // namespace nvllm::cpu
