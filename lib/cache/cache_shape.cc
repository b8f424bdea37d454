// The numbers of blocks that tables can have.
#include "lib/cache/cache_shape.h"

namespace nvllm {

namespace {

constexpr int32_t kStateReach = 2;

}  // namespace

CacheShape::CacheShape(int32_t block_size, std::span<const CacheGroupConfig> groups,
                       bool has_checkpoints)
    : block_size_(block_size), has_checkpoints_(has_checkpoints) {
    for (const CacheGroupConfig& group : groups) {
        const bool is_state = group.kind == CacheGroupKind::state;
        groups_.push_back({group.window, is_state ? kStateReach : group.window, is_state});
        has_windows_ = has_windows_ || group.window > 0;
        has_states_ = has_states_ || is_state;
    }
}

int32_t CacheShape::max_blocks(int32_t group, int32_t num_tokens, int32_t largest_step) const {
    // A running state and the checkpoint from which it is copied.
    if (is_state(group)) return has_checkpoints_ ? 2 : 1;
    const int32_t window = groups_[group].window;
    const int32_t all = num_blocks_for(num_tokens);
    if (window == 0) return all;
    // A step reads and writes window - 1 + largest_step positions in a row, which may begin with a
    // block's last one.
    return std::min(all, num_blocks_for(window + largest_step - 2) + 1);
}

int32_t CacheShape::admitted_size(int32_t group, int32_t num_matched, int32_t num_tokens,
                                  int32_t largest_step) const {
    if (is_state(group)) return table_size_for(group, num_tokens);
    return std::min(num_blocks_for(num_tokens), first_block_read(group, num_matched) +
                                                    max_blocks(group, num_tokens, largest_step));
}

}  // namespace nvllm
