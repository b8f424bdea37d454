// From parents to runs and paths.
#include "kernels/cpu/attention/attention_trees.h"

namespace nvllm::cpu {

TreeOfRows::TreeOfRows(const AttentionBatch& batch, int64_t sequence)
    : batch_(batch),
      sequence_(sequence),
      tree_begin_(batch.seq_lens[sequence] - batch.num_tree_rows(sequence)),
      first_row_(batch.num_tree_rows(sequence) - batch.num_queries(sequence)),
      parents_(batch.options.parents.as<int32_t>() + batch.tree_starts()[sequence]) {}

int64_t TreeOfRows::parent_of(int64_t row) const {
    const int64_t parent = parents_[row];
    NVLLM_CHECK(parent >= -1 && parent < row, "paged_attention: a parent comes before its child");
    return parent;
}

int64_t TreeOfRows::depth_of(int64_t row) const {
    int64_t depth = 0;
    for (row = parent_of(row); row >= 0; row = parent_of(row)) ++depth;
    return depth;
}

bool TreeOfRows::follows(int64_t query) const {
    const int64_t row = row_of(query);
    if (row < 0) return true;
    return parent_of(row) == row - 1;
}

int64_t TreeOfRows::run_end(int64_t first) const {
    const int64_t most = std::min(batch_.num_queries(sequence_), first + batch_.queries_per_item());
    int64_t end = first + 1;
    while (end < most && follows(end)) ++end;
    return end;
}

AttentionItem TreeOfRows::item(int64_t index, int64_t kv_head) const {
    int64_t first = 0;
    for (int64_t run = 0; run < index; ++run) first = run_end(first);
    const int64_t end = run_end(first);
    AttentionItem item{
        sequence_, kv_head, batch_.query_start_loc[sequence_] + first, end - first, 0, 0, 0};
    int64_t row = row_of(end - 1);
    const int64_t depth = row < 0 ? row : depth_of(row);
    item.end = tree_begin_ + depth + 1;
    item.first_position = item.end - item.num_queries;
    item.tree_begin = tree_begin_;
    for (int64_t place = depth; place >= 0; --place, row = parent_of(row)) {
        item.path[static_cast<size_t>(place)] = static_cast<uint8_t>(row);
        if (row != place) item.first_moved = tree_begin_ + place;
    }
    const int64_t first_seen = batch_.first_visible(item.first_position);
    item.begin = first_seen - first_seen % ops::kAttentionTile;
    return item;
}

}  // namespace nvllm::cpu
