// A set of keys under a lock.
#include "lib/engine/replicas/cached_keys.h"

#include <algorithm>

namespace nvllm {

void CachedKeys::cached(const BlockKey& key) {
    const std::lock_guard lock(mutex_);
    keys_.insert(key);
}

void CachedKeys::dropped(const BlockKey& key) {
    const std::lock_guard lock(mutex_);
    keys_.erase(key);
}

int64_t CachedKeys::num_leading(std::span<const BlockKey> keys) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::find_if(keys, [&](const BlockKey& key) { return !keys_.contains(key); }) -
           keys.begin();
}

}  // namespace nvllm
