// One sequence's share of the cache: its block tables, its keys, and its blocks in host memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/cache/block_table.h"
#include "lib/cache/cache_key_extras.h"
#include "lib/cache/prefix/prefix_index.h"
#include "lib/cache/swap_space.h"

namespace nvllm {

class CacheManager;

// Copies of a sequence's running state in one group of kind state.
struct StateCheckpoints {
    struct Pending {
        int32_t block_index = 0;
        BlockId slot = 0;
    };
    // The checkpoint that the sequence was admitted with: the first write copies it to the running
    // slot.
    std::optional<BlockId> source;
    // States at the ends of blocks that are not yet committed.
    std::vector<Pending> pending;
    // The block with the checkpoint that goes when a newer one is kept.
    std::optional<int32_t> newest;
};

// The bookkeeping of one sequence. The parts of CacheManager read and change it.
struct CacheSequence {
    struct SwappedTable {
        int32_t num_given_back = 0;
        std::vector<HostBlockId> blocks;  // of the entries after those
    };
    struct HostBlock {
        int32_t group = 0;
        HostBlockId block = 0;
    };
    // While the sequence waits: the leading cached blocks that it will ask for.
    struct ReuseHint {
        PrefixNode* node = nullptr;  // the last of them; pinned
        int32_t num_nodes = 0;
        int32_t limit = 0;  // blocks that it will ask for, cached or not
    };

    bool swapped_out() const { return !swapped.empty(); }
    bool empty() const;
    // REQUIRES: the block is one of the num_cached.
    PrefixNode& cached_node(int32_t block) const {
        PrefixNode* node = last_cached;
        for (int32_t i = num_cached - 1; i > block; --i) node = node->parent;
        return *node;
    }
    // The slot that holds the state. REQUIRES: the group is of kind state, the table is not empty.
    BlockId state_slot(int32_t group) const {
        return checkpoints[group].source.value_or(tables[group][0]);
    }

    uint64_t owner = 0;
    size_t index = 0;  // in the list of all sequences
    std::vector<BlockExtra> extras;
    std::vector<BlockTable> tables;             // per group
    std::vector<StateCheckpoints> checkpoints;  // per group; empty if no group is of kind state
    // Of the leading full blocks, as many as were looked for; computed once, because tokens are
    // only ever appended.
    std::vector<BlockKey> keys;
    PrefixNode* last_cached = nullptr;  // of the last block in the prefix cache; pinned
    int32_t num_cached = 0;             // leading blocks in the prefix cache
    int32_t num_shared = 0;             // of those, found in the cache and not computed
    int32_t num_positions = 0;          // asked for; later positions of the last block are wasted
    uint64_t last_plan = 0;             // the last plan that named the sequence
    ReuseHint hint;
    std::vector<SwappedTable> swapped;  // per group; empty unless swapped out
    // Of DiskTier.
    bool has_looked_on_disk = false;
    uint64_t last_read = 0;            // that it waits for
    int32_t num_blocks_read = 0;       // for it, until it is admitted
    std::vector<HostBlock> returning;  // swapped in, by a plan that has no number yet
};

// Frees its blocks when it is destroyed. Changed by CacheManager only, which outlives it.
class SequenceBlocks {
  public:
    // Sequences with different extras share no block from the first difference on. `owner`
    // identifies the sequence in table changes; 0 if no caller needs it.
    SequenceBlocks(CacheManager& manager, const CacheKeyExtras& extras, uint64_t owner = 0);
    SequenceBlocks(CacheManager& manager, std::string_view salt, uint64_t owner = 0);
    ~SequenceBlocks();
    SequenceBlocks(SequenceBlocks&& other) noexcept;
    SequenceBlocks(const SequenceBlocks&) = delete;
    SequenceBlocks& operator=(const SequenceBlocks&) = delete;
    SequenceBlocks& operator=(SequenceBlocks&&) = delete;

    uint64_t owner() const { return state_.owner; }
    const BlockTable& table(int32_t group) const { return state_.tables[group]; }
    // The entries of all tables, per cache group.
    std::vector<std::vector<BlockId>> block_tables() const;
    // Whether it holds no device blocks in any group.
    bool empty() const { return state_.empty(); }
    // Leading blocks in the prefix cache, including those that left the window since.
    int32_t num_cached_blocks() const { return state_.num_cached; }
    // Whether its content lies in host memory.
    bool swapped_out() const { return state_.swapped_out(); }

  private:
    friend class CacheManager;

    CacheManager* manager_;
    CacheSequence state_;
};

}  // namespace nvllm
