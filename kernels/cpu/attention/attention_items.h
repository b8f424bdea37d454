// A step of attention and the items that threads take from it.
//
// An item is one kv head of one sequence with a run of its queries, over all positions they see or,
// where there are fewer items than would keep all threads busy, over one segment of positions. With
// few queries it is several heads, whose keys and values of a block lie side by side: memory gives
// half as much again when more is read in one go than a head's 4 KiB.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/rows.h"
#include "kernels/ops/attention.h"

namespace nvllm::cpu {

constexpr int64_t kAttentionRowsPerItem = 192;
// So few rows of a head multiply keys and values as these lie; with more it pays to upcast them
// first.
constexpr int64_t kFewAttentionRows = 12;
// Rows of items that are segments, for each head of the model: what these leave is kept until all
// are done.
constexpr int64_t kMaxSegmentRowsPerHead = 128;

struct AttentionBatch {
    const ConstTensorView& queries;
    const ConstTensorView& key_cache;
    const ConstTensorView& value_cache;
    const int32_t* query_start_loc;
    const int32_t* seq_lens;
    const ConstTensorView& block_tables;
    const ops::PagedAttentionOptions& options;
    const TensorView& out;

    int64_t num_sequences;
    int64_t kv_heads;
    int64_t group;  // query heads of one kv head
    int64_t head_dim;
    int64_t width;      // head_dim padded
    int64_t value_dim;  // of values, at most head_dim
    int64_t block_size;
    int64_t heads_per_item;  // kv heads
    bool segments_are_items;
    const int64_t* item_starts;  // [num_sequences]: items of the sequences before each
    const AttentionMatmuls& products;
    float score_scale = options.scale;  // of q · k as it is stored
    float value_scale = 1.0f;           // of values as they are stored

    int64_t queries_per_item() const { return std::max<int64_t>(1, kAttentionRowsPerItem / group); }
    int64_t num_queries(int64_t sequence) const {
        return query_start_loc[sequence + 1] - query_start_loc[sequence];
    }
    int64_t num_runs(int64_t sequence) const {
        if (is_tree(sequence)) return num_tree_runs(sequence);
        return divided_up(num_queries(sequence), queries_per_item());
    }
    // Values are dimensions of keys.
    bool keys_alone() const { return options.value_dim > 0; }
    // Whether the sequence ends with a tree of drafts.
    bool is_tree(int64_t sequence) const {
        if (options.parents.data == nullptr) return false;
        const int64_t rows = num_tree_rows(sequence);
        return rows > 0 && rows <= ops::kMaxTreeRows;
    }
    const int32_t* tree_starts() const {
        const ConstTensorView& starts = options.tree_start_loc;
        return starts.data == nullptr ? query_start_loc : starts.as<int32_t>();
    }
    int64_t num_tree_rows(int64_t sequence) const {
        return tree_starts()[sequence + 1] - tree_starts()[sequence];
    }
    // The first position that a query at `position` sees.
    int64_t first_visible(int64_t position) const {
        if (options.chunk > 0) return position - position % options.chunk;
        return options.window > 0 ? std::max<int64_t>(0, position + 1 - options.window) : 0;
    }
    // The first after those that it sees, in a sequence of so many positions.
    int64_t visible_end(int64_t position, int64_t length) const {
        if (options.causal) return position + 1;
        return options.window > 0 ? std::min(length, position + options.window) : length;
    }
    int64_t num_segments(int64_t sequence) const {
        const int64_t length = seq_lens[sequence];
        return divided_up(length, ops::kAttentionSegment) -
               first_visible(length - num_queries(sequence)) / ops::kAttentionSegment;
    }
    int64_t items_of_all_heads() const { return kv_heads / heads_per_item; }
    int64_t num_items(int64_t sequence) const {
        return num_runs(sequence) * items_of_all_heads() *
               (segments_are_items ? num_segments(sequence) : 1);
    }
    int64_t num_items() const;
    // Rows of one kv head with all queries of its sequence, at most.
    int64_t max_rows() const;

  private:
    int64_t num_tree_runs(int64_t sequence) const;
};

struct AttentionItem {
    int64_t sequence;
    int64_t kv_head;      // the first of heads_per_item
    int64_t first_query;  // row of `queries`
    int64_t num_queries;
    int64_t first_position;  // of the first query
    int64_t begin;           // the first position of the item, which begins a tile
    int64_t end;             // the first after it, or that none of its queries sees
    // Of a branch: from `first_moved` on position p lies where p = tree_begin + path[p -
    // tree_begin] would.
    int64_t first_moved = std::numeric_limits<int64_t>::max();
    int64_t tree_begin = 0;
    std::array<uint8_t, ops::kMaxTreeRows> path = {};

    // The position in whose slot this one lies.
    int64_t place_of(int64_t position) const {
        if (position < first_moved) return position;
        return tree_begin + path[static_cast<size_t>(position - tree_begin)];
    }
};

// Decides heads_per_item and segments_are_items, which change no result.
void divide(AttentionBatch& batch, int num_threads);

// Fills item_starts.
void set_item_starts(const AttentionBatch& batch, int64_t* item_starts);

// REQUIRES: item_starts are filled. Items of one sequence come segment by segment or run by run, in
// each all kv heads.
AttentionItem find_item(const AttentionBatch& batch, int64_t index);

}  // namespace nvllm::cpu
