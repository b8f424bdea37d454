// Blocks that enter and leave tables.
#include "lib/cache/block_tables.h"

#include "kernels/error.h"

namespace nvllm {

void BlockTables::add(CacheSequence& sequence) {
    sequence.index = sequences_.size();
    sequences_.push_back(&sequence);
}

void BlockTables::remove(const CacheSequence& sequence) {
    CacheSequence* last = sequences_.back();
    sequences_[sequence.index] = last;
    last->index = sequence.index;
    sequences_.pop_back();
}

int32_t BlockTables::num_missing(int32_t group, const PrefixMatch& match, int32_t num_tokens,
                                 int32_t largest_step, int32_t headroom) const {
    const int32_t size = shape_.admitted_size(group, match.num_tokens, num_tokens, largest_step);
    const int32_t num_matched = static_cast<int32_t>(match.contents.size());
    // Sequences grow in groups of blocks only: a state group needs no headroom.
    int32_t needed = shape_.is_state(group) ? size : size - num_matched + headroom;
    // A matched block that no sequence uses is available too, but this sequence needs it.
    for (int32_t i = shape_.first_block_read(group, match.num_tokens); i < num_matched; ++i) {
        const BlockId block = *PrefixIndex::block(*match.contents[i], group);
        if (pools_[group].references(block) == 0) ++needed;
    }
    return std::max(0, needed - pools_[group].num_available());
}

// All matched blocks are shared before any block is taken: taking could evict one of them.
bool BlockTables::admit(CacheSequence& sequence, const PrefixMatch& match, int32_t num_tokens,
                        int32_t largest_step, int32_t headroom) {
    NVLLM_CHECK(sequence.empty() && !sequence.swapped_out(),
                "only a sequence without blocks is admitted");
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        if (num_missing(group, match, num_tokens, largest_step, headroom) > 0) return false;
    }
    for (int32_t group = 0; group < shape_.num_groups(); ++group) share(sequence, group, match);
    prefix_cache_.use(sequence, match);
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const int32_t size =
            shape_.admitted_size(group, match.num_tokens, num_tokens, largest_step);
        BlockTable& table = sequence.tables[group];
        while (table.size() < size) table.append(prefix_cache_.take(group));
    }
    sequence.num_positions = num_tokens;
    return true;
}

void BlockTables::share(CacheSequence& sequence, int32_t group, const PrefixMatch& match) {
    const auto num_matched = static_cast<int32_t>(match.contents.size());
    if (shape_.is_state(group)) {
        if (num_matched > 0) share_checkpoint(sequence, group, *match.contents.back());
        return;
    }
    BlockTable& table = sequence.tables[group];
    const int32_t first = shape_.first_block_read(group, match.num_tokens);
    table.start_behind(std::min(first, num_matched));
    for (int32_t i = first; i < num_matched; ++i) {
        const BlockId block = *PrefixIndex::block(*match.contents[i], group);
        pools_[group].share(block);
        table.append(block);
    }
}

void BlockTables::share_checkpoint(CacheSequence& sequence, int32_t group, const PrefixNode& node) {
    const BlockId slot = *PrefixIndex::block(node, group);
    pools_[group].share(slot);
    sequence.checkpoints[group].source = slot;
}

// If it fails, compaction would not help: a table takes any block, and moving blocks makes none
// free. A pool that shrinks is compacted right before; no allocation comes in between.
bool BlockTables::append(CacheSequence& sequence, int32_t num_positions,
                         std::vector<std::vector<BlockId>>& added) {
    bool needs_any = false;
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const int32_t size = shape_.table_size_for(group, num_positions);
        const int32_t needed = size - sequence.tables[group].size();
        if (needed > pools_[group].num_available()) return false;
        needs_any = needs_any || needed > 0;
    }
    // In a state group, holds() is false for more than one block of positions.
    if (!needs_any) return true;
    added.resize(pools_.size());
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const int32_t size = shape_.table_size_for(group, num_positions);
        BlockTable& table = sequence.tables[group];
        while (table.size() < size) {
            table.append(prefix_cache_.take(group));
            added[group].push_back(table[table.size() - 1]);
        }
    }
    return true;
}

void BlockTables::free_out_of_window(CacheSequence& sequence, int32_t num_computed) {
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        if (shape_.is_state(group)) continue;
        BlockTable& table = sequence.tables[group];
        const int32_t first = std::min(shape_.first_block_read(group, num_computed), table.size());
        while (table.num_given_back() < first) free(sequence, group, table.give_back_first());
    }
}

void BlockTables::clear(CacheSequence& sequence, int32_t group) {
    BlockTable& table = sequence.tables[group];
    for (int32_t i = table.size() - 1; i >= table.num_given_back(); --i) {
        free(sequence, group, table[i]);
    }
    table.clear();
}

}  // namespace nvllm
