// Blocks that enter and leave tables.
#include "lib/cache/block_tables.h"

#include "kernels/error.h"

namespace nvllm {
namespace {

// In a table that is being made: a block is still to be taken for the content.
constexpr BlockId kInHostMemory = -1;

}  // namespace

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
    // A matched block that no sequence uses is available too, but this sequence needs it; and a
    // content in host memory needs a block. A state comes from there into the running slot.
    for (int32_t i = shape_.first_block_read(group, match.num_tokens); i < num_matched; ++i) {
        const auto block = PrefixIndex::block(*match.contents[i], group);
        const bool takes = block ? pools_[group].references(*block) == 0 : !shape_.is_state(group);
        needed += takes ? 1 : 0;
    }
    return std::max(0, needed - pools_[group].num_available());
}

// All matched blocks are shared, and those in host memory reserved, before any block is taken:
// taking could evict one of them.
bool BlockTables::admit(CacheSequence& sequence, const PrefixMatch& match, int32_t num_tokens,
                        int32_t largest_step, int32_t headroom) {
    NVLLM_CHECK(sequence.empty() && !sequence.swapped_out(),
                "only a sequence without blocks is admitted");
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        if (num_missing(group, match, num_tokens, largest_step, headroom) > 0) return false;
    }
    host_.count_hits(num_host_tokens(match));
    for (int32_t group = 0; group < shape_.num_groups(); ++group) share(sequence, group, match);
    prefix_cache_.use(sequence, match);
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const int32_t size =
            shape_.admitted_size(group, match.num_tokens, num_tokens, largest_step);
        BlockTable& table = sequence.tables[group];
        while (table.size() < size) table.append(prefix_cache_.take(group));
        bring_back(sequence, group, match);
    }
    sequence.num_positions = num_tokens;
    return true;
}

// Of contents of which a group has nothing on the device that it reads.
int32_t BlockTables::num_host_tokens(const PrefixMatch& match) const {
    int32_t num_blocks = 0;
    for (int32_t i = 0; i < std::ssize(match.contents); ++i) {
        bool is_missing = false;
        for (int32_t group = 0; group < shape_.num_groups(); ++group) {
            const bool is_read = i >= shape_.first_block_read(group, match.num_tokens);
            is_missing |= is_read && !PrefixIndex::block(*match.contents[i], group);
        }
        num_blocks += is_missing ? 1 : 0;
    }
    return num_blocks * shape_.block_size();
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
        const auto block = PrefixIndex::block(*match.contents[i], group);
        if (block) {
            pools_[group].share(*block);
        } else {
            host_.reserve(*match.contents[i], group);
        }
        table.append(block.value_or(kInHostMemory));
    }
}

void BlockTables::bring_back(CacheSequence& sequence, int32_t group, const PrefixMatch& match) {
    if (match.contents.empty()) return;
    BlockTable& table = sequence.tables[group];
    if (shape_.is_state(group)) {
        // Not as a checkpoint: that would be copied to the running slot before it has come.
        if (sequence.checkpoints[group].source) return;
        return host_.bring_back(*match.contents.back(), group, table[0]);
    }
    for (int32_t i = table.num_given_back(); i < std::ssize(match.contents); ++i) {
        if (table[i] != kInHostMemory) continue;
        table.replace(i, prefix_cache_.take(group));
        host_.bring_back(*match.contents[i], group, table[i]);
        prefix_cache_.insert(*match.contents[i], group, table[i]);
    }
}

void BlockTables::share_checkpoint(CacheSequence& sequence, int32_t group, const PrefixNode& node) {
    const auto slot = PrefixIndex::block(node, group);
    if (!slot) return host_.reserve(node, group);
    pools_[group].share(*slot);
    sequence.checkpoints[group].source = *slot;
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
