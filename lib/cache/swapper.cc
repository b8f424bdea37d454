// Host blocks instead of device blocks, and the other way.
#include "lib/cache/swapper.h"

#include <algorithm>
#include <optional>

#include "kernels/error.h"

namespace nvllm {

bool Swapper::swap_out(CacheSequence& sequence, int32_t num_positions,
                       std::vector<SwapMove>& moves) {
    NVLLM_CHECK(!sequence.empty() && !sequence.swapped_out(),
                "only a sequence on the device is swapped out");
    const auto end = [&](int32_t group) {
        return std::min(sequence.tables[group].size(), shape_.table_size_for(group, num_positions));
    };
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        const int32_t count = end(group) - sequence.tables[group].num_given_back();
        if (!host_.make_room(group, count)) return false;
    }
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        swap_out_group(sequence, group, end(group), moves);
    }
    sequence.num_positions = num_positions;
    ++counts_.sequences_out;
    return true;
}

void Swapper::swap_out_group(CacheSequence& sequence, int32_t group, int32_t end,
                             std::vector<SwapMove>& moves) {
    const BlockTable& table = sequence.tables[group];
    CacheSequence::SwappedTable& swapped = sequence.swapped.emplace_back();
    swapped.num_given_back = table.num_given_back();
    for (int32_t i = table.num_given_back(); i < end; ++i) {
        swapped.blocks.push_back(swap_space_.take(group));
        const BlockId block = shape_.is_state(group) ? sequence.state_slot(group) : table[i];
        moves.push_back({group, block, swapped.blocks.back(), i});
        ++counts_.blocks_out;
    }
    if (shape_.is_state(group)) states_.clear(sequence, group);
    tables_.clear(sequence, group);
}

bool Swapper::swap_in(CacheSequence& sequence, int32_t headroom, std::vector<SwapMove>& moves) {
    NVLLM_CHECK(sequence.swapped_out(), "only a swapped out sequence is swapped in");
    const std::vector<PrefixNode*> path = prefix_cache_.path(sequence);
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        // Sequences grow in groups of blocks only: a state group needs no headroom.
        const int32_t needed =
            num_to_take(sequence, group, path) + (shape_.is_state(group) ? 0 : headroom);
        if (needed > pools_[group].num_available()) return false;
    }
    for (int32_t group = 0; group < shape_.num_groups(); ++group) {
        swap_in_group(sequence, group, path, moves);
    }
    sequence.swapped.clear();
    ++counts_.sequences_in;
    return true;
}

// Unused blocks that swapping in makes used.
int32_t Swapper::num_to_take(const CacheSequence& sequence, int32_t group,
                             std::span<PrefixNode* const> path) const {
    const CacheSequence::SwappedTable& swapped = sequence.swapped[group];
    int32_t count = 0;
    for (size_t i = 0; i < swapped.blocks.size(); ++i) {
        const int32_t entry = swapped.num_given_back + static_cast<int32_t>(i);
        const std::optional<BlockId> found = can_be_cached(sequence, group, entry)
                                                 ? PrefixIndex::block(*path[entry], group)
                                                 : std::nullopt;
        count += !found || pools_[group].references(*found) == 0;
    }
    return count;
}

// The cached blocks are shared before any block is taken: taking could evict them.
void Swapper::swap_in_group(CacheSequence& sequence, int32_t group,
                            std::span<PrefixNode* const> path, std::vector<SwapMove>& moves) {
    const CacheSequence::SwappedTable& swapped = sequence.swapped[group];
    BlockTable& table = sequence.tables[group];
    const int32_t end = swapped.num_given_back + static_cast<int32_t>(swapped.blocks.size());
    const std::vector<bool> is_shared = share_cached(sequence, group, end, path);
    for (int32_t i = swapped.num_given_back; i < end; ++i) {
        const HostBlockId host = swapped.blocks[i - swapped.num_given_back];
        sequence.returning.push_back({group, host});
        if (is_shared[i]) {
            ++counts_.blocks_found;
            continue;
        }
        table.replace(i, prefix_cache_.take(group));
        moves.push_back({group, table[i], host, i});
        ++counts_.blocks_in;
        if (can_be_cached(sequence, group, i)) prefix_cache_.insert(*path[i], group, table[i]);
    }
}

// Makes the table `end` entries long. Returns which of them are cached blocks; the others are 0.
std::vector<bool> Swapper::share_cached(CacheSequence& sequence, int32_t group, int32_t end,
                                        std::span<PrefixNode* const> path) {
    BlockTable& table = sequence.tables[group];
    table.start_behind(sequence.swapped[group].num_given_back);
    std::vector<bool> is_shared(static_cast<size_t>(end));
    for (int32_t i = table.size(); i < end; ++i) {
        table.append(0);
        if (!can_be_cached(sequence, group, i)) continue;
        const std::optional<BlockId> cached = PrefixIndex::block(*path[i], group);
        if (!cached) continue;
        is_shared[i] = true;
        table.replace(i, *cached);
        pools_[group].share(*cached);
    }
    return is_shared;
}

void Swapper::free_after(CacheSequence& sequence, uint64_t plan_number) {
    for (const CacheSequence::HostBlock& host : sequence.returning) {
        deferred_.add_host(plan_number, host.group, host.block);
    }
    sequence.returning.clear();
}

// Plans that read them have named them already or never will.
void Swapper::free_host_blocks(CacheSequence& sequence) {
    for (const CacheSequence::HostBlock& host : sequence.returning) {
        swap_space_.free(host.group, host.block);
    }
    sequence.returning.clear();
    for (int32_t group = 0; sequence.swapped_out() && group < shape_.num_groups(); ++group) {
        for (const HostBlockId host : sequence.swapped[group].blocks) {
            swap_space_.free(group, host);
        }
    }
    sequence.swapped.clear();
}

}  // namespace nvllm
