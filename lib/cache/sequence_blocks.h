// One sequence's share of the cache: its tables, its keys, and what it left in host memory.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/cache/block_table.h"
#include "lib/cache/cache_key_extras.h"
#include "lib/cache/prefix_index.h"
#include "lib/cache/swap_space.h"

namespace nvllm {

class CacheManager;

// Gives its blocks back when it goes. Changed by CacheManager only, which outlives it.
class SequenceBlocks {
  public:
    // Sequences with different extras share no block from the first difference on. `owner` is the
    // name by which CacheManager speaks of it; 0 when nobody asks.
    SequenceBlocks(CacheManager& manager, const CacheKeyExtras& extras, uint64_t owner = 0);
    SequenceBlocks(CacheManager& manager, std::string_view salt, uint64_t owner = 0);
    ~SequenceBlocks();
    SequenceBlocks(SequenceBlocks&& other) noexcept;
    SequenceBlocks(const SequenceBlocks&) = delete;
    SequenceBlocks& operator=(const SequenceBlocks&) = delete;
    SequenceBlocks& operator=(SequenceBlocks&&) = delete;

    uint64_t owner() const { return owner_; }
    const BlockTable& table(int32_t group) const { return tables_[group]; }
    // The entries of all tables, per cache group.
    std::vector<std::vector<BlockId>> block_tables() const;
    // Whether it holds no device blocks in any group.
    bool empty() const;
    // Leading blocks whose content can be found by others, or could until it left the window.
    int32_t num_published_blocks() const { return num_published_; }
    // Whether its content lies in host memory.
    bool swapped_out() const { return !swapped_.empty(); }

  private:
    friend class CacheManager;

    struct SwappedTable {
        int32_t num_given_back = 0;
        std::vector<HostBlockId> blocks;  // of the entries after those
    };
    struct HostBlock {
        int32_t group = 0;
        HostBlockId block = 0;
    };

    CacheManager* manager_;
    uint64_t owner_;
    size_t place_ = 0;  // in the manager's list of sequences
    std::vector<BlockExtra> extras_;
    std::vector<BlockTable> tables_;  // per group
    // Of the leading full blocks, as many as were looked for; computed once, because tokens are
    // only ever appended.
    std::vector<BlockKey> keys_;
    PrefixNode* published_ = nullptr;  // content of the last published block; pinned
    int32_t num_published_ = 0;
    int32_t num_shared_ = 0;     // of those, found in the cache and not computed
    int32_t num_positions_ = 0;  // asked for: what lies beyond them in the last block is waste
    uint64_t last_plan_ = 0;     // the last plan that named the sequence

    // While it waits: the leading contents that are counted as expected.
    PrefixNode* expected_ = nullptr;  // the last of them; pinned
    int32_t num_expected_ = 0;
    int32_t expected_limit_ = 0;  // contents it will ask for

    std::vector<SwappedTable> swapped_;  // per group; empty unless swapped out
    std::vector<HostBlock> returning_;   // swapped in, by a plan that has no number yet
};

}  // namespace nvllm
