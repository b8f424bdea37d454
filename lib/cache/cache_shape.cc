// The numbers of blocks that tables can have.
#include "lib/cache/cache_shape.h"

namespace nvllm {

CacheShape::CacheShape(int32_t block_size, std::span<const CacheGroupConfig> groups)
    : block_size_(block_size) {
    for (const CacheGroupConfig& group : groups) {
        windows_.push_back(group.window);
        has_windows_ = has_windows_ || group.window > 0;
    }
}

int32_t CacheShape::max_blocks(int32_t group, int32_t num_tokens, int32_t largest_step) const {
    const int32_t window = windows_[group];
    const int32_t all = num_blocks_for(num_tokens);
    if (window == 0) return all;
    // A step reads and writes window - 1 + largest_step positions in a row, which may begin with a
    // block's last one.
    return std::min(all, num_blocks_for(window + largest_step - 2) + 1);
}

int32_t CacheShape::admitted_size(int32_t group, int32_t num_matched, int32_t num_tokens,
                                  int32_t largest_step) const {
    return std::min(num_blocks_for(num_tokens), first_block_read(group, num_matched) +
                                                    max_blocks(group, num_tokens, largest_step));
}

}  // namespace nvllm
