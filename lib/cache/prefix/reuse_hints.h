// Reuse hints: which blocks waiting sequences will ask for, so that eviction spares them.
//
// A hint covers the leading cached blocks of a sequence's tokens. When the next block is cached by
// another sequence, the hint grows. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "lib/cache/eviction_ranking.h"
#include "lib/cache/prefix/prefix_index.h"
#include "lib/cache/sequence_blocks.h"

namespace nvllm {

class ReuseHints {
  public:
    // `enabled`: whether the eviction policy uses hints and blocks are cached at all.
    ReuseHints(PrefixIndex& index, EvictionRanking& ranking, bool enabled)
        : index_(index), ranking_(ranking), enabled_(enabled) {}

    // Replaces the sequence's hint by one for these tokens. Only removes the hint if there are no
    // tokens or hints are not enabled.
    void set(CacheSequence& sequence, std::span<const int32_t> tokens);
    void clear(CacheSequence& sequence);
    // The node is new in the index.
    void node_added(PrefixNode& node) {
        if (!waiting_.empty()) extend_hints(node);
    }
    // The state moved in memory, with its hint.
    void replace(const CacheSequence& from, CacheSequence& to) noexcept;

    // Throws internal if nodes count other hints than `sequences` (all there are) have.
    void check_integrity(std::span<CacheSequence* const> sequences) const;

  private:
    void count(PrefixNode& node, int32_t change);
    void extend_hints(PrefixNode& node);
    void wait_for_next(CacheSequence& sequence);
    void stop_waiting(CacheSequence& sequence);

    PrefixIndex& index_;
    EvictionRanking& ranking_;
    bool enabled_;
    // Sequences that will ask for a block that is not cached yet, by its key.
    struct KeyHash {
        size_t operator()(const BlockKey& key) const { return key.low; }
    };
    std::unordered_multimap<BlockKey, CacheSequence*, KeyHash> waiting_;
};

}  // namespace nvllm
