// Ancestors as bits.
#include "kernels/cpu/attention/attention_trees.h"

namespace nvllm::cpu {

void find_ancestors(const AttentionBatch& batch, const AttentionItem& item, uint64_t* ancestors) {
    const int64_t start = batch.query_start_loc[item.sequence];
    const int32_t* parents = batch.options.parents.as<int32_t>() + start;
    for (int64_t query = 0; query < item.num_queries; ++query) {
        uint64_t found = 0;
        for (int64_t row = item.first_query - start + query; row >= 0; row = parents[row]) {
            NVLLM_CHECK(parents[row] < row, "paged_attention: a parent comes before its child");
            found |= uint64_t{1} << row;
        }
        std::fill_n(ancestors + query * batch.group, batch.group, found);
    }
}

void set_seen(const AttentionBatch& batch, const AttentionItem& item, int64_t tile,
              const TreeRows& rows) {
    // Of the step's first row, from the tile's begin.
    const int64_t first = batch.seq_lens[item.sequence] - batch.num_queries(item.sequence) - tile;
    for (int64_t i = 0; i < rows.count; ++i) {
        const uint64_t ancestors = rows.ancestors[i];
        if (first >= ops::kAttentionTile) {
            rows.seen[i] = ~uint64_t{0};
        } else if (first >= 0) {
            rows.seen[i] = ancestors << first | ((uint64_t{1} << first) - 1);
        } else {
            rows.seen[i] = first > -ops::kAttentionTile ? ancestors >> -first : 0;
        }
    }
}

}  // namespace nvllm::cpu
