// What must hold between the parts of the cache, for tests.
#pragma once

#include <span>

#include "lib/cache/cache_parts.h"

namespace nvllm {

// Throws internal if references differ from the occurrences in the tables of `sequences` (all there
// are), or a part is inconsistent; O(blocks, nodes and tables).
void check_integrity(const CacheParts& parts, std::span<const CacheSequence* const> sequences);

}  // namespace nvllm
