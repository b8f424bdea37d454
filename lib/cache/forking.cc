// Sequences that go on from one another: shared tables, and private copies of what they write to.
#include <algorithm>

#include "kernels/error.h"
#include "lib/cache/cache_manager.h"

namespace nvllm {

void CacheManager::fork(SequenceBlocks& child, const SequenceBlocks& parent,
                        int32_t num_positions) {
    NVLLM_CHECK(child.empty() && !child.swapped_out() && !parent.swapped_out(),
                "a fork begins with nothing, from what is on the device");
    NVLLM_CHECK(int64_t{parent.num_published_} * block_size() <= num_positions,
                "a fork goes on after what its parent published");
    forget_expectation(child);
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockTable& from = parent.tables_[group];
        BlockTable& to = child.tables_[group];
        const int64_t wanted = (int64_t{num_positions} + block_size() - 1) / block_size();
        const auto size = static_cast<int32_t>(std::min<int64_t>(from.size(), wanted));
        to.start_behind(std::min(size, from.num_given_back()));
        for (int32_t i = to.size(); i < size; ++i) {
            pools_[group].share(from[i]);
            to.append(from[i]);
        }
    }
    const auto num_keys = std::min<size_t>(parent.keys_.size(), parent.num_published_);
    child.keys_.assign(parent.keys_.begin(), parent.keys_.begin() + num_keys);
    child.last_plan_ = std::max(child.last_plan_, parent.last_plan_);
    child.num_positions_ = std::min(num_positions, parent.num_positions_);
    if (parent.published_ != nullptr) index_.pin(*parent.published_);
    set_published(child, parent.published_, parent.num_published_);
    // None of it was computed by the child.
    child.num_shared_ = child.num_published_;
}

// Blocks from entry `first` on that others refer to as well.
int32_t CacheManager::num_to_replace(const SequenceBlocks& sequence, int32_t group,
                                     int32_t first) const {
    const BlockTable& table = sequence.tables_[group];
    int32_t count = 0;
    for (int32_t i = std::max(first, table.num_given_back()); i < table.size(); ++i) {
        count += pools_[group].references(table[i]) > 1;
    }
    return count;
}

bool CacheManager::make_last_block_private(SequenceBlocks& sequence, int32_t next_position,
                                           std::vector<BlockMove>& copies,
                                           std::vector<TableChange>& changes) {
    const int32_t first = next_position / config_.block_size;
    NVLLM_CHECK(first >= sequence.num_published_, "a published block is never written to");
    for (int32_t group = 0; group < num_groups(); ++group) {
        if (num_to_replace(sequence, group, first) > pools_[group].num_available()) return false;
    }
    for (int32_t group = 0; group < num_groups(); ++group) {
        BlockTable& table = sequence.tables_[group];
        for (int32_t i = std::max(first, table.num_given_back()); i < table.size(); ++i) {
            const BlockId shared = table[i];
            if (pools_[group].references(shared) == 1) continue;
            const BlockId own = take(group);
            table.replace(i, own);
            changes.push_back({sequence.owner(), group, i, own});
            const bool holds_earlier = i == first && next_position % config_.block_size != 0;
            if (holds_earlier) copies.push_back({group, shared, own});
            num_private_copies_ += holds_earlier;
            part(sequence, group, shared);
        }
    }
    return true;
}

}  // namespace nvllm
