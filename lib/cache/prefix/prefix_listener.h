// Told which contents a prefix index holds, as that changes.
#pragma once

#include "lib/cache/prefix/prefix_index.h"

namespace nvllm {

// Called by the thread that owns the index; must not call back into the cache.
class PrefixListener {
  public:
    virtual ~PrefixListener() = default;

    // A first block, of any cache group and tier, holds the content with this key.
    virtual void cached(const BlockKey& key) = 0;
    // No block holds it any more.
    virtual void dropped(const BlockKey& key) = 0;
};

}  // namespace nvllm
