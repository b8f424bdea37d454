// What a replica has in its prefix cache, by the keys of its prefix index.
//
// The engine thread of the replica tells what changes; others ask.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_set>

#include "lib/cache/prefix/prefix_listener.h"

namespace nvllm {

// Keys are hashes already.
struct BlockKeyHash {
    size_t operator()(const BlockKey& key) const { return static_cast<size_t>(key.low); }
};

class CachedKeys : public PrefixListener {
  public:
    void cached(const BlockKey& key) override;
    void dropped(const BlockKey& key) override;

    // Of the blocks of a prompt, the first one first: how many are cached before one that is not.
    int64_t num_leading(std::span<const BlockKey> keys) const;

  private:
    mutable std::mutex mutex_;
    std::unordered_set<BlockKey, BlockKeyHash> keys_;
};

}  // namespace nvllm
