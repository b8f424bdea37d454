// How attention's work is divided.
#include "kernels/cpu/attention/attention_items.h"

#include "kernels/cpu/attention/attention_trees.h"

namespace nvllm::cpu {
namespace {

// Fewer keep not all threads busy until the end, unless they are whole segments, of which each
// thread gets as many: then so few do.
constexpr int64_t kItemsPerThread = 4;
constexpr int64_t kSegmentsPerThread = 2;
// What is gained where more heads lie together is a twentieth of the time: a thread may wait so
// long for another.
constexpr int64_t kGainFromMoreHeads = 20;

// Whether taking segments by themselves shares out the work better.
bool segments_should_be_items(const AttentionBatch& batch, int num_threads) {
    int64_t num_runs = 0;
    int64_t num_segments = 0;
    for (int64_t sequence = 0; sequence < batch.num_sequences; ++sequence) {
        if (batch.is_tree(sequence) || batch.num_runs(sequence) > 1) return false;
        num_runs += batch.num_runs(sequence);
        num_segments += batch.num_runs(sequence) * batch.num_segments(sequence);
    }
    return num_threads > 1 &&
           num_runs * batch.items_of_all_heads() < kItemsPerThread * num_threads &&
           num_segments > num_runs &&
           num_segments * batch.max_rows() <= kMaxSegmentRowsPerHead * batch.group;
}

// Whether each thread gets as many whole segments, and what is left over is little.
bool segments_are_shared_evenly(const AttentionBatch& batch, int num_threads) {
    int64_t num_whole = 0;
    int64_t whole = 0;  // positions
    int64_t rest = 0;
    for (int64_t s = 0; s < batch.num_sequences; ++s) {
        const int64_t length_of_rest = batch.seq_lens[s] % ops::kAttentionSegment;
        const int64_t segments = batch.num_segments(s) - (length_of_rest > 0 ? 1 : 0);
        num_whole += segments * batch.items_of_all_heads();
        whole += segments * ops::kAttentionSegment;
        rest += length_of_rest;
    }
    const bool rest_is_little = rest * (num_threads - 1) * kGainFromMoreHeads <= whole;
    return num_whole >= kSegmentsPerThread * num_threads && num_whole % num_threads == 0 &&
           rest_is_little;
}

bool keeps_threads_busy(const AttentionBatch& batch, int num_threads) {
    return batch.num_items() >= kItemsPerThread * num_threads ||
           (batch.segments_are_items && segments_are_shared_evenly(batch, num_threads));
}

void take_heads_together(AttentionBatch& batch, int64_t heads, int num_threads) {
    batch.heads_per_item = heads;
    batch.segments_are_items = segments_should_be_items(batch, num_threads);
}

}  // namespace

int64_t AttentionBatch::num_tree_runs(int64_t sequence) const {
    const TreeOfRows tree(*this, sequence);
    int64_t runs = 0;
    for (int64_t query = 0; query < num_queries(sequence); ++runs) query = tree.run_end(query);
    return runs;
}

int64_t AttentionBatch::max_rows() const {
    int64_t most = 0;
    for (int64_t s = 0; s < num_sequences; ++s) most = std::max(most, num_queries(s) * group);
    return most;
}

int64_t AttentionBatch::num_items() const {
    int64_t items = 0;
    for (int64_t s = 0; s < num_sequences; ++s) items += num_items(s);
    return items;
}

void divide(AttentionBatch& batch, int num_threads) {
    take_heads_together(batch, 1, num_threads);
    const int64_t rows = batch.max_rows();
    if (rows > kFewAttentionRows) return;
    for (int64_t heads = 2; heads <= batch.kv_heads; ++heads) {
        if (batch.kv_heads % heads != 0) continue;
        AttentionBatch joined = batch;
        take_heads_together(joined, heads, num_threads);
        if (!keeps_threads_busy(joined, num_threads) || heads * rows > kAttentionRowsPerItem)
            return;
        take_heads_together(batch, heads, num_threads);
    }
}

void set_item_starts(const AttentionBatch& batch, int64_t* item_starts) {
    int64_t num_items = 0;
    for (int64_t sequence = 0; sequence < batch.num_sequences; ++sequence) {
        item_starts[sequence] = num_items;
        num_items += batch.num_items(sequence);
    }
}

AttentionItem find_item(const AttentionBatch& batch, int64_t index) {
    const int64_t* after =
        std::upper_bound(batch.item_starts, batch.item_starts + batch.num_sequences, index);
    const int64_t sequence = after - batch.item_starts - 1;
    index -= batch.item_starts[sequence];
    const int64_t part =
        index / batch.items_of_all_heads();  // a run of queries, or a segment of positions
    const int64_t kv_head = index % batch.items_of_all_heads() * batch.heads_per_item;
    if (batch.is_tree(sequence)) return TreeOfRows(batch, sequence).item(part, kv_head);
    const int64_t run = batch.segments_are_items ? 0 : part * batch.queries_per_item();
    const int64_t num_queries = batch.num_queries(sequence);
    const int64_t length = batch.seq_lens[sequence];
    const int64_t count = std::min(batch.queries_per_item(), num_queries - run);
    const int64_t first_position = length - num_queries + run;
    const int64_t first_seen = batch.first_visible(first_position);
    AttentionItem item{sequence,
                       kv_head,
                       batch.query_start_loc[sequence] + run,
                       count,
                       first_position,
                       first_seen - first_seen % ops::kAttentionTile,
                       batch.visible_end(first_position + count - 1, length)};
    if (batch.segments_are_items) {
        constexpr int64_t length_of_segment = ops::kAttentionSegment;
        const int64_t begin = (item.begin / length_of_segment + part) * length_of_segment;
        item.begin = std::max(item.begin, begin);
        item.end = std::min(item.end, begin + length_of_segment);
    }
    return item;
}

}  // namespace nvllm::cpu
