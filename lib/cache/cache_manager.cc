// Tables, prefix hits and the deferred return of blocks.
#include "lib/cache/cache_manager.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"

namespace nvllm {
namespace {

std::vector<int32_t> checked_group_sizes(const CacheConfig& config) {
    const auto require = [](bool holds, const char* what) {
        if (!holds) throw Error(ErrorKind::bad_config, std::string("cache: ") + what);
    };
    require(config.block_size >= 1, "block_size must be at least 1");
    require(!config.groups.empty(), "there must be at least one cache group");
    std::vector<int32_t> sizes;
    for (const CacheGroupConfig& group : config.groups) {
        require(group.num_blocks >= 1, "every cache group needs at least 1 block");
        require(group.window >= 0, "window must not be negative");
        require(group.num_host_blocks >= 0, "num_host_blocks must not be negative");
        sizes.push_back(group.num_blocks);
    }
    require(config.eviction_costs.half_life_in_capacities > 0.0,
            "half_life_in_capacities must be above 0");
    return sizes;
}

std::vector<int32_t> host_sizes(const CacheConfig& config) {
    std::vector<int32_t> sizes;
    for (const CacheGroupConfig& group : config.groups) sizes.push_back(group.num_host_blocks);
    return sizes;
}

}  // namespace

CacheManager::CacheManager(const CacheConfig& config)
    : config_(config),
      eviction_(find_eviction(config.eviction)),
      index_(config.block_size, checked_group_sizes(config),
             config.hash_key.value_or(HashKey::random())),
      swap_space_(host_sizes(config)) {
    int32_t most = 0;
    for (const CacheGroupConfig& group : config.groups) {
        pools_.emplace_back(group.num_blocks, eviction_.value != nullptr);
        most = std::max(most, group.num_blocks);
        has_windows_ = has_windows_ || group.window > 0;
    }
    half_life_ = config.eviction_costs.half_life_in_capacities * most;
}

void CacheManager::enter(SequenceBlocks& sequence) {
    sequence.place_ = sequences_.size();
    sequences_.push_back(&sequence);
}

void CacheManager::leave(SequenceBlocks& sequence) {
    SequenceBlocks* last = sequences_.back();
    sequences_[sequence.place_] = last;
    last->place_ = sequence.place_;
    sequences_.pop_back();
}

void CacheManager::relocate(SequenceBlocks& from, SequenceBlocks& to) noexcept {
    sequences_[to.place_] = &to;
    if (to.num_expected_ == to.expected_limit_) return;
    for (auto& [key, sequence] : awaited_) {
        if (sequence == &from) sequence = &to;
    }
}

int32_t CacheManager::num_blocks_for(int32_t num_positions) const {
    return (num_positions + config_.block_size - 1) / config_.block_size;
}

// The first block that a query at `position`, or a later one, reads.
int32_t CacheManager::first_block_read(int32_t group, int32_t position) const {
    const int32_t window = config_.groups[group].window;
    if (window == 0) return 0;
    return std::max(0, position - window + 1) / config_.block_size;
}

int32_t CacheManager::most_blocks(int32_t group, int32_t num_tokens, int32_t largest_step) const {
    const int32_t window = config_.groups[group].window;
    const int32_t all = num_blocks_for(num_tokens);
    if (window == 0) return all;
    // A step reads and writes window - 1 + largest_step positions in a row, which may begin with a
    // block's last one.
    return std::min(all, num_blocks_for(window + largest_step - 2) + 1);
}

// Entries of the table of a sequence let in with its first `first` tokens matched.
int32_t CacheManager::admitted_size(int32_t group, int32_t first, int32_t num_tokens,
                                    int32_t largest_step) const {
    return std::min(num_blocks_for(num_tokens),
                    first_block_read(group, first) + most_blocks(group, num_tokens, largest_step));
}

int32_t CacheManager::num_missing(int32_t group, const PrefixMatch& match, int32_t num_tokens,
                                  int32_t largest_step, int32_t headroom) const {
    const int32_t size = admitted_size(group, match.num_tokens, num_tokens, largest_step);
    const int32_t num_matched = static_cast<int32_t>(match.contents.size());
    int32_t needed = size - num_matched + headroom;
    // A matched block that nobody uses is also one that could have been taken for something else.
    for (int32_t i = first_block_read(group, match.num_tokens); i < num_matched; ++i) {
        const BlockId block = *PrefixIndex::block(*match.contents[i], group);
        if (pools_[group].references(block) == 0) ++needed;
    }
    return std::max(0, needed - pools_[group].num_available());
}

bool CacheManager::admit(SequenceBlocks& sequence, const PrefixMatch& match, int32_t num_tokens,
                         int32_t largest_step, int32_t headroom) {
    NVLLM_CHECK(sequence.empty() && !sequence.swapped_out(),
                "only a sequence without blocks is let in");
    for (int32_t group = 0; group < num_groups(); ++group) {
        if (num_missing(group, match, num_tokens, largest_step, headroom) > 0) return false;
    }
    take_shared(sequence, match);
    for (int32_t group = 0; group < num_groups(); ++group) {
        const int32_t size = admitted_size(group, match.num_tokens, num_tokens, largest_step);
        BlockTable& table = sequence.tables_[group];
        while (table.size() < size) table.append(take(group));
    }
    sequence.num_positions_ = num_tokens;
    forget_expectation(sequence);
    if (config_.enable_prefix_caching) {
        queried_tokens_ += num_tokens;
        hit_tokens_ += match.num_tokens;
    }
    return true;
}

// Where it fails, compaction would not help: any block will do, wherever it lies, and moving blocks
// makes none free that was not. A pool that is to shrink is compacted before it is cut, at once; no
// allocation comes in between.
bool CacheManager::append_blocks(SequenceBlocks& sequence, int32_t num_positions,
                                 std::vector<std::vector<BlockId>>& added) {
    const int32_t size = num_blocks_for(num_positions);
    for (int32_t group = 0; group < num_groups(); ++group) {
        const int32_t needed = size - sequence.tables_[group].size();
        if (needed > pools_[group].num_available()) return false;
    }
    added.resize(pools_.size());
    for (int32_t group = 0; group < num_groups(); ++group) {
        BlockTable& table = sequence.tables_[group];
        while (table.size() < size) {
            table.append(take(group));
            added[group].push_back(table[table.size() - 1]);
        }
    }
    return true;
}

BlockId CacheManager::take(int32_t group) {
    const std::optional<BlockPool::Taken> taken = pools_[group].take(half_lives(tick_));
    NVLLM_CHECK(taken.has_value(), "blocks were counted before they were taken");
    if (taken->was_cached) withdraw(group, taken->block);
    ++tick_;
    return taken->block;
}

void CacheManager::part_with_host_blocks(SequenceBlocks& sequence, uint64_t plan_number) {
    for (const SequenceBlocks::HostBlock& host : sequence.returning_) {
        host_parted_.push_back({plan_number, host.group, host.block});
    }
    sequence.returning_.clear();
}

void CacheManager::plan_committed(uint64_t plan_number) {
    NVLLM_CHECK(plan_number >= committed_plan_, "plans are committed in their order");
    committed_plan_ = plan_number;
    const auto settle = [&](std::vector<PendingFree>& parted, auto give_back) {
        if (parted.empty()) return;
        const auto kept = std::stable_partition(
            parted.begin(), parted.end(),
            [&](const PendingFree& one) { return one.last_plan <= plan_number; });
        for (auto one = parted.begin(); one != kept; ++one) give_back(one->group, one->block);
        parted.erase(parted.begin(), kept);
    };
    settle(parted_, [&](int32_t group, BlockId block) { give_up(group, block); });
    settle(host_parted_,
           [&](int32_t group, HostBlockId block) { swap_space_.give_back(group, block); });
}

void CacheManager::commit(SequenceBlocks& sequence, std::span<const int32_t> tokens,
                          int32_t num_computed) {
    NVLLM_CHECK(!sequence.swapped_out(), "what is in host memory cannot have been computed");
    while (config_.enable_prefix_caching &&
           num_computed - sequence.num_published_ * config_.block_size >= config_.block_size) {
        publish_next_block(sequence, tokens);
    }
    if (has_windows_) give_back_unread(sequence, num_computed);
}

// `node` is pinned for the sequence already, or null.
void CacheManager::set_published(SequenceBlocks& sequence, PrefixNode* node, int32_t num_blocks) {
    if (sequence.published_ != nullptr) index_.unpin(*sequence.published_);
    sequence.published_ = node;
    sequence.num_published_ = num_blocks;
}

void CacheManager::give_back_unread(SequenceBlocks& sequence, int32_t num_computed) {
    for (int32_t group = 0; group < num_groups(); ++group) {
        BlockTable& table = sequence.tables_[group];
        const int32_t first = std::min(first_block_read(group, num_computed), table.size());
        while (table.num_given_back() < first) part(sequence, group, table.give_back_first());
    }
}

void CacheManager::part(const SequenceBlocks& sequence, int32_t group, BlockId block) {
    if (sequence.last_plan_ > committed_plan_) {
        parted_.push_back({sequence.last_plan_, group, block});
    } else {
        give_up(group, block);
    }
}

void CacheManager::clear_table(SequenceBlocks& sequence, int32_t group) {
    BlockTable& table = sequence.tables_[group];
    for (int32_t i = table.size() - 1; i >= table.num_given_back(); --i) {
        part(sequence, group, table[i]);
    }
    table.clear();
}

void CacheManager::release(SequenceBlocks& sequence) {
    for (int32_t group = 0; group < num_groups(); ++group) clear_table(sequence, group);
    give_back_host_blocks(sequence);
    forget_expectation(sequence);
    set_published(sequence, nullptr, 0);
    sequence.num_shared_ = 0;
    sequence.num_positions_ = 0;
}

void CacheManager::discard(SequenceBlocks& sequence) {
    const std::vector<PrefixNode*> path = published_path(sequence);
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockTable& table = sequence.tables_[group];
        const int32_t first = std::max(sequence.num_shared_, table.num_given_back());
        for (int32_t i = first; i < sequence.num_published_; ++i) {
            // Of a swapped out sequence nobody knows which block it was: all go.
            const std::vector<BlockId> blocks =
                sequence.swapped_out() ? index_.blocks(*path[i], group) : std::vector{table[i]};
            for (const BlockId block : blocks) {
                // A fork may have withdrawn what both hold.
                if (!index_.is_published(group, block)) continue;
                withdraw(group, block);
                pools_[group].forget(block);
            }
        }
    }
    release(sequence);
}

void CacheManager::forget_contents() {
    plan_committed(std::max(committed_plan_, last_named_plan_));
    for (int32_t group = 0; group < num_groups(); ++group) {
        BlockPool& pool = pools_[group];
        NVLLM_CHECK(pool.num_used() == 0, "a sequence still holds blocks");
        NVLLM_CHECK(swap_space_.num_used(group) == 0, "a sequence still holds host blocks");
        for (BlockId block = 0; block < pool.num_total(); ++block) {
            if (!pool.is_cached(block)) continue;
            withdraw(group, block);
            pool.forget(block);
        }
    }
}

}  // namespace nvllm
