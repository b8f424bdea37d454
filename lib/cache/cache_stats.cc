// Counts, figures and the owners of blocks.
#include "lib/cache/cache_stats.h"

#include <algorithm>

#include "lib/cache/cache_manager.h"

namespace nvllm {
namespace {

double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

int32_t longest_unused_run(const BlockPool& pool) {
    int32_t longest = 0;
    int32_t run = 0;
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        run = pool.references(block) == 0 ? run + 1 : 0;
        longest = std::max(longest, run);
    }
    return longest;
}

void finish(CacheGroupStats& stats, int32_t block_size) {
    const double used = stats.blocks.used;
    stats.utilisation = ratio(used, stats.blocks.total);
    stats.sharing = ratio(static_cast<double>(stats.references) - used, used);
    stats.waste = ratio(static_cast<double>(stats.waste_slots), used * block_size);
}

void add(CacheGroupStats& total, const CacheGroupStats& one) {
    total.blocks.total += one.blocks.total;
    total.blocks.used += one.blocks.used;
    total.blocks.cached += one.blocks.cached;
    total.blocks.free += one.blocks.free;
    total.blocks.evictions += one.blocks.evictions;
    total.references += one.references;
    total.waste_slots += one.waste_slots;
    total.fragmentation = std::max(total.fragmentation, one.fragmentation);
    total.longest_unused_run = std::max(total.longest_unused_run, one.longest_unused_run);
    total.host_total += one.host_total;
    total.host_used += one.host_used;
}

}  // namespace

BlockCounts CacheManager::counts(int32_t group) const {
    const BlockPool& pool = pools_[group];
    return {pool.num_total(), pool.num_used(), pool.num_cached(), pool.num_free(),
            pool.num_evictions()};
}

int32_t CacheManager::num_available() const {
    const auto fewest = std::ranges::min_element(pools_, {}, &BlockPool::num_available);
    return fewest->num_available();
}

CacheStats CacheManager::stats() const {
    CacheStats stats;
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockCounts one = counts(group);
        stats.blocks.total += one.total;
        stats.blocks.used += one.used;
        stats.blocks.cached += one.cached;
        stats.blocks.free += one.free;
        stats.blocks.evictions += one.evictions;
    }
    stats.queried_tokens = queried_tokens_;
    stats.hit_tokens = hit_tokens_;
    return stats;
}

CacheGroupStats CacheManager::stats_of(int32_t group) const {
    const BlockPool& pool = pools_[group];
    CacheGroupStats stats;
    stats.blocks = counts(group);
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        stats.references += pool.references(block);
    }
    stats.waste_slots = waste_slots(group);
    stats.longest_unused_run = longest_unused_run(pool);
    stats.fragmentation = fragmentation_of(group, stats.longest_unused_run);
    stats.host_total = swap_space_.num_total(group);
    stats.host_used = swap_space_.num_used(group);
    finish(stats, config_.block_size);
    return stats;
}

double CacheManager::fragmentation_of(int32_t group, int32_t longest_unused_run) const {
    const int32_t unused = pools_[group].num_available();
    return unused > 0 ? 1.0 - ratio(longest_unused_run, unused) : 0.0;
}

double CacheManager::fragmentation() const {
    double worst = 0.0;
    for (int32_t group = 0; group < num_groups(); ++group) {
        worst = std::max(worst, fragmentation_of(group, longest_unused_run(pools_[group])));
    }
    return worst;
}

// Forks may share a last block: it is counted once, for the one that fills most of it.
int64_t CacheManager::waste_slots(int32_t group) const {
    std::unordered_map<BlockId, int32_t> unused_slots;
    for (const SequenceBlocks* sequence : sequences_) {
        const BlockTable& table = sequence->tables_[group];
        if (table.num_held() == 0) continue;
        const int32_t slots = table.size() * config_.block_size - sequence->num_positions_;
        const int32_t unused = std::clamp(slots, 0, config_.block_size);
        const auto [entry, is_new] = unused_slots.try_emplace(table[table.size() - 1], unused);
        if (!is_new) entry->second = std::min(entry->second, unused);
    }
    int64_t total = 0;
    for (const auto& [block, unused] : unused_slots) total += unused;
    return total;
}

DetailedCacheStats CacheManager::detailed_stats() const {
    DetailedCacheStats stats;
    for (int32_t group = 0; group < num_groups(); ++group) {
        stats.groups.push_back(stats_of(group));
        add(stats.total, stats.groups.back());
    }
    finish(stats.total, config_.block_size);
    stats.eviction = eviction_.name;
    stats.queried_tokens = queried_tokens_;
    stats.hit_tokens = hit_tokens_;
    stats.hit_rate = ratio(static_cast<double>(hit_tokens_), static_cast<double>(queried_tokens_));
    stats.num_contents = index_.num_nodes();
    stats.num_private_copies = num_private_copies_;
    stats.num_duplicates_freed = num_duplicates_freed_;
    stats.compaction = compaction_counts_;
    stats.swap = swap_counts_;
    return stats;
}

std::vector<uint64_t> CacheManager::owners(int32_t group, BlockId block) const {
    std::vector<uint64_t> owners;
    for (const SequenceBlocks* sequence : sequences_) {
        const auto held = sequence->tables_[group].held();
        if (std::ranges::find(held, block) != held.end()) owners.push_back(sequence->owner());
    }
    return owners;
}

}  // namespace nvllm
