// Sums over blocks and tables.
#include "lib/cache/cache_inspection.h"

#include <algorithm>
#include <unordered_map>

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
    total.host_cached += one.host_cached;
}

double fragmentation_of(const BlockPool& pool, int32_t longest_unused_run) {
    const int32_t unused = pool.num_available();
    return unused > 0 ? 1.0 - ratio(longest_unused_run, unused) : 0.0;
}

// Forks may share a last block: it is counted once, for the sequence that fills most of it.
int64_t waste_slots(const CacheParts& parts, int32_t group) {
    if (parts.shape.is_state(group)) return 0;
    const int32_t block_size = parts.shape.block_size();
    std::unordered_map<BlockId, int32_t> unused_slots;
    for (const CacheSequence* sequence : parts.tables.all()) {
        const BlockTable& table = sequence->tables[group];
        if (table.num_held() == 0) continue;
        const int32_t slots = table.size() * block_size - sequence->num_positions;
        const int32_t unused = std::clamp(slots, 0, block_size);
        const auto [entry, is_new] = unused_slots.try_emplace(table[table.size() - 1], unused);
        if (!is_new) entry->second = std::min(entry->second, unused);
    }
    int64_t total = 0;
    for (const auto& [block, unused] : unused_slots) total += unused;
    return total;
}

CacheGroupStats group_stats(const CacheParts& parts, int32_t group) {
    const BlockPool& pool = parts.pools[group];
    CacheGroupStats stats;
    stats.blocks = block_counts(pool);
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        stats.references += pool.references(block);
    }
    stats.waste_slots = waste_slots(parts, group);
    stats.longest_unused_run = longest_unused_run(pool);
    stats.fragmentation = fragmentation_of(pool, stats.longest_unused_run);
    stats.host_total = parts.swap_space.num_total(group);
    stats.host_used = parts.swap_space.num_used(group);
    stats.host_cached = parts.host_tier.num_held(group);
    finish(stats, parts.shape.block_size());
    return stats;
}

}  // namespace

BlockCounts block_counts(const BlockPool& pool) {
    return {pool.num_total(), pool.num_used(), pool.num_cached(), pool.num_free(),
            pool.num_evictions()};
}

BlockCounts total_counts(std::span<const BlockPool> pools) {
    BlockCounts total;
    for (const BlockPool& pool : pools) {
        total.total += pool.num_total();
        total.used += pool.num_used();
        total.cached += pool.num_cached();
        total.free += pool.num_free();
        total.evictions += pool.num_evictions();
    }
    return total;
}

double fragmentation(std::span<const BlockPool> pools) {
    double worst = 0.0;
    for (const BlockPool& pool : pools) {
        worst = std::max(worst, fragmentation_of(pool, longest_unused_run(pool)));
    }
    return worst;
}

DetailedCacheStats detailed_stats(const CacheParts& parts) {
    DetailedCacheStats stats;
    for (int32_t group = 0; group < parts.shape.num_groups(); ++group) {
        stats.groups.push_back(group_stats(parts, group));
        add(stats.total, stats.groups.back());
    }
    finish(stats.total, parts.shape.block_size());
    stats.eviction = parts.ranking.policy().name;
    stats.queried_tokens = parts.prefix_cache.num_queried_tokens();
    stats.hit_tokens = parts.prefix_cache.num_hit_tokens();
    stats.hit_rate =
        ratio(static_cast<double>(stats.hit_tokens), static_cast<double>(stats.queried_tokens));
    stats.num_contents = parts.index.num_nodes();
    stats.num_private_copies = parts.copy_on_write.num_copies();
    stats.num_duplicates_freed = parts.prefix_cache.num_duplicates_freed();
    stats.compaction = parts.compactor.counts();
    stats.swap = parts.swapper.counts();
    stats.host_tier = parts.host_tier.stats();
    stats.disk_tier = parts.disk_tier.stats();
    return stats;
}

std::vector<uint64_t> block_owners(const BlockTables& tables, int32_t group, BlockId block) {
    std::vector<uint64_t> owners;
    for (const CacheSequence* sequence : tables.all()) {
        const auto held = sequence->tables[group].held();
        if (std::ranges::find(held, block) != held.end()) owners.push_back(sequence->owner);
    }
    return owners;
}

}  // namespace nvllm
