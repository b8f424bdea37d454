// Sequences whose content goes to host memory and comes back.
#include <algorithm>

#include "kernels/error.h"
#include "lib/cache/cache_manager.h"

namespace nvllm {

bool CacheManager::swap_out(SequenceBlocks& sequence, int32_t num_positions,
                            std::vector<SwapMove>& moves) {
    NVLLM_CHECK(!sequence.empty() && !sequence.swapped_out(),
                "what is swapped out is on the device");
    const auto end = [&](int32_t group) {
        return std::min(sequence.tables_[group].size(), num_blocks_for(num_positions));
    };
    for (int32_t group = 0; group < num_groups(); ++group) {
        const int32_t count = end(group) - sequence.tables_[group].num_given_back();
        if (count > swap_space_.num_free(group)) return false;
    }
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockTable& table = sequence.tables_[group];
        SequenceBlocks::SwappedTable& swapped = sequence.swapped_.emplace_back();
        swapped.num_given_back = table.num_given_back();
        for (int32_t i = table.num_given_back(); i < end(group); ++i) {
            swapped.blocks.push_back(swap_space_.take(group));
            moves.push_back({group, table[i], swapped.blocks.back(), i});
            ++swap_counts_.blocks_out;
        }
        clear_table(sequence, group);
    }
    sequence.num_positions_ = num_positions;
    ++swap_counts_.sequences_out;
    return true;
}

bool CacheManager::swap_in(SequenceBlocks& sequence, int32_t headroom,
                           std::vector<SwapMove>& moves) {
    NVLLM_CHECK(sequence.swapped_out(), "only what was swapped out comes back");
    const std::vector<PrefixNode*> path = published_path(sequence);
    for (int32_t group = 0; group < num_groups(); ++group) {
        const int32_t needed = num_to_take_back(sequence, group, path) + headroom;
        if (needed > pools_[group].num_available()) return false;
    }
    for (int32_t group = 0; group < num_groups(); ++group) {
        swap_in_group(sequence, group, path, moves);
    }
    sequence.swapped_.clear();
    ++swap_counts_.sequences_in;
    return true;
}

// The contents of the published blocks, the first one first.
std::vector<PrefixNode*> CacheManager::published_path(const SequenceBlocks& sequence) const {
    std::vector<PrefixNode*> path(sequence.num_published_);
    PrefixNode* node = sequence.published_;
    for (size_t i = path.size(); i > 0; --i) {
        path[i - 1] = node;
        node = node->parent;
    }
    return path;
}

// Unused blocks that coming back makes used.
int32_t CacheManager::num_to_take_back(const SequenceBlocks& sequence, int32_t group,
                                       std::span<PrefixNode* const> path) const {
    const SequenceBlocks::SwappedTable& swapped = sequence.swapped_[group];
    int32_t count = 0;
    for (size_t i = 0; i < swapped.blocks.size(); ++i) {
        const size_t entry = static_cast<size_t>(swapped.num_given_back) + i;
        const std::optional<BlockId> found =
            entry < path.size() ? PrefixIndex::block(*path[entry], group) : std::nullopt;
        count += !found || pools_[group].references(*found) == 0;
    }
    return count;
}

// What is found is shared before any block is taken: taking could give it away.
void CacheManager::swap_in_group(SequenceBlocks& sequence, int32_t group,
                                 std::span<PrefixNode* const> path, std::vector<SwapMove>& moves) {
    const SequenceBlocks::SwappedTable& swapped = sequence.swapped_[group];
    BlockTable& table = sequence.tables_[group];
    table.start_behind(swapped.num_given_back);
    const int32_t end = swapped.num_given_back + static_cast<int32_t>(swapped.blocks.size());
    std::vector<bool> found(static_cast<size_t>(end));
    for (int32_t i = table.size(); i < end; ++i) {
        table.append(0);
        if (i >= sequence.num_published_) continue;
        const std::optional<BlockId> holder = PrefixIndex::block(*path[i], group);
        if (!holder) continue;
        found[i] = true;
        table.replace(i, *holder);
        pools_[group].share(table[i]);
    }
    for (int32_t i = swapped.num_given_back; i < end; ++i) {
        const HostBlockId host = swapped.blocks[i - swapped.num_given_back];
        sequence.returning_.push_back({group, host});
        if (found[i]) {
            ++swap_counts_.blocks_found;
            continue;
        }
        table.replace(i, take(group));
        moves.push_back({group, table[i], host, i});
        ++swap_counts_.blocks_in;
        if (i < sequence.num_published_) publish(*path[i], group, table[i]);
    }
}

// Of a sequence that ends; plans that read them have named it already or never will.
void CacheManager::give_back_host_blocks(SequenceBlocks& sequence) {
    for (const SequenceBlocks::HostBlock& host : sequence.returning_) {
        swap_space_.give_back(host.group, host.block);
    }
    sequence.returning_.clear();
    for (int32_t group = 0; sequence.swapped_out() && group < num_groups(); ++group) {
        for (const HostBlockId host : sequence.swapped_[group].blocks) {
            swap_space_.give_back(group, host);
        }
    }
    sequence.swapped_.clear();
}

}  // namespace nvllm
