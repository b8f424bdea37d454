// Shared tables, and private copies of blocks before a write.
#include "lib/cache/copy_on_write.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {

void CopyOnWrite::fork(CacheSequence& child, const CacheSequence& parent, int32_t num_positions) {
    NVLLM_CHECK(child.empty() && !child.swapped_out() && !parent.swapped_out(),
                "a fork begins without blocks, from blocks on the device");
    NVLLM_CHECK(int64_t{parent.num_cached} * shape_.block_size() <= num_positions,
                "a fork begins after the cached blocks of its parent");
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        if (shape_.is_state(group)) {
            states_.fork(child, parent, group);
        } else {
            share_table(child, parent, group, num_positions);
        }
    }
    const auto num_keys = std::min<size_t>(parent.keys.size(), parent.num_cached);
    child.keys.assign(parent.keys.begin(), parent.keys.begin() + static_cast<long>(num_keys));
    child.last_plan = std::max(child.last_plan, parent.last_plan);
    child.num_positions = std::min(num_positions, parent.num_positions);
    if (parent.last_cached != nullptr) index_.pin(*parent.last_cached);
    prefix_cache_.set_cached(child, parent.last_cached, parent.num_cached);
    // None of it was computed by the child.
    child.num_shared = child.num_cached;
}

void CopyOnWrite::share_table(CacheSequence& child, const CacheSequence& parent, int32_t group,
                              int32_t num_positions) {
    const BlockTable& from = parent.tables[group];
    BlockTable& to = child.tables[group];
    const int64_t wanted = (int64_t{num_positions} + shape_.block_size() - 1) / shape_.block_size();
    const auto size = static_cast<int32_t>(std::min<int64_t>(from.size(), wanted));
    to.start_behind(std::min(size, from.num_given_back()));
    for (int32_t i = to.size(); i < size; ++i) {
        pools_[group].share(from[i]);
        to.append(from[i]);
    }
}

// Blocks from entry `first` on that others refer to as well.
int32_t CopyOnWrite::num_to_replace(const CacheSequence& sequence, int32_t group,
                                    int32_t first) const {
    if (shape_.is_state(group)) return states_.num_needed(sequence, group);
    const BlockTable& table = sequence.tables[group];
    int32_t count = 0;
    for (int32_t i = std::max(first, table.num_given_back()); i < table.size(); ++i) {
        count += pools_[group].references(table[i]) > 1;
    }
    return count;
}

bool CopyOnWrite::make_writable(CacheSequence& sequence, int32_t next_position, bool keeps_state,
                                std::vector<BlockMove>& copies, std::vector<TableChange>& changes) {
    const int32_t first = next_position / shape_.block_size();
    NVLLM_CHECK(first >= sequence.num_cached, "a cached block is never written to");
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        if (num_to_replace(sequence, group, first) > pools_[group].num_available()) return false;
    }
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        if (shape_.is_state(group)) {
            states_.make_writable(sequence, group, next_position, keeps_state, copies, changes);
        } else {
            replace_shared(sequence, group, next_position, copies, changes);
        }
    }
    return true;
}

void CopyOnWrite::replace_shared(CacheSequence& sequence, int32_t group, int32_t next_position,
                                 std::vector<BlockMove>& copies,
                                 std::vector<TableChange>& changes) {
    const int32_t first = next_position / shape_.block_size();
    BlockTable& table = sequence.tables[group];
    for (int32_t i = std::max(first, table.num_given_back()); i < table.size(); ++i) {
        const BlockId shared = table[i];
        if (pools_[group].references(shared) == 1) continue;
        const BlockId own = prefix_cache_.take(group);
        table.replace(i, own);
        changes.push_back({sequence.owner, group, i, own});
        const bool holds_earlier = i == first && next_position % shape_.block_size() != 0;
        if (holds_earlier) copies.push_back({group, shared, own});
        num_copies_ += holds_earlier;
        tables_.free(sequence, group, shared);
    }
}

}  // namespace nvllm
