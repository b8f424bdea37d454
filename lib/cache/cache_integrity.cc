// Checks between tables, pools, prefix index and reuse hints.
#include "lib/cache/cache_integrity.h"

#include <string>
#include <vector>

#include "kernels/error.h"

namespace nvllm {
namespace {

using Sequences = std::span<const CacheSequence* const>;

std::vector<int32_t> count_occurrences(const CacheParts& parts, int32_t group,
                                       Sequences sequences) {
    const int32_t num_blocks = parts.pools[group].num_total();
    std::vector<int32_t> occurrences(static_cast<size_t>(num_blocks), 0);
    for (const CacheSequence* sequence : sequences) {
        const BlockTable& table = sequence->tables[group];
        for (const BlockId block : table.held()) ++occurrences.at(block);
        for (const BlockId block : table.blocks()) {
            NVLLM_CHECK(block < num_blocks, "a table names a block that does not exist");
        }
        if (!parts.shape.is_state(group)) continue;
        const StateCheckpoints& checkpoints = sequence->checkpoints[group];
        if (checkpoints.source) ++occurrences.at(*checkpoints.source);
        for (const auto& one : checkpoints.pending) ++occurrences.at(one.slot);
    }
    for (const PendingFree& pending : parts.deferred.blocks()) {
        if (pending.group == group) ++occurrences.at(pending.block);
    }
    return occurrences;
}

void check_blocks(const CacheParts& parts, int32_t group, Sequences sequences) {
    const BlockPool& pool = parts.pools[group];
    const std::vector<int32_t> occurrences = count_occurrences(parts, group, sequences);
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        const std::string name = "block " + std::to_string(block);
        NVLLM_CHECK(occurrences[block] == pool.references(block),
                    name + " has other references than occurrences in tables");
        NVLLM_CHECK(pool.is_cached(block) == parts.index.contains(group, block),
                    name + " is cached in the pool or in the index only");
    }
}

void check_cached_blocks(const CacheParts& parts, int32_t group) {
    const BlockPool& pool = parts.pools[group];
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        if (!pool.is_cached(block) || pool.references(block) > 0) continue;
        const std::string name = "block " + std::to_string(block);
        const PrefixNode& node = *parts.index.node(group, block);
        NVLLM_CHECK(node.groups[group].num_blocks == 1,
                    name + " is unused and cached, though another replica exists");
        if (parts.ranking.policy().value == nullptr) continue;
        const EvictionRank known = pool.rank_of(block);
        const EvictionRank now = parts.ranking.rank(node, group);
        NVLLM_CHECK(known.has_children == now.has_children && known.expected == now.expected,
                    name + " has a wrong rank in the order of eviction");
    }
}

void check_host_blocks(const CacheParts& parts, Sequences sequences) {
    std::vector<std::vector<int32_t>> held;  // references, by group and block
    for (int32_t group = 0; group < parts.shape.num_groups(); ++group) {
        held.emplace_back(static_cast<size_t>(parts.swap_space.num_total(group)));
    }
    const auto hold = [&](int32_t group, HostBlockId block) { ++held[group][block]; };
    for (const CacheSequence* sequence : sequences) {
        for (const auto& host : sequence->returning) hold(host.group, host.block);
        if (!sequence->swapped_out()) continue;
        for (int32_t group = 0; group < parts.shape.num_groups(); ++group) {
            for (const HostBlockId block : sequence->swapped[group].blocks) hold(group, block);
        }
    }
    for (const PendingFree& pending : parts.deferred.host_blocks()) {
        hold(pending.group, pending.block);
    }
    parts.disk_tier.visit_moves([&](const DiskMove& move) { hold(move.group, move.host_block); });
    for (int32_t group = 0; group < parts.shape.num_groups(); ++group) {
        parts.host_tier.visit(group, [&](const PrefixNode& node, HostBlockId block) {
            hold(group, block);
            NVLLM_CHECK(node.groups[group].host_block == block, "a content has another host block");
        });
        for (HostBlockId block = 0; block < parts.swap_space.num_total(group); ++block) {
            NVLLM_CHECK(held[group][block] == parts.swap_space.references(group, block),
                        "a host block's references are not those of its owners");
        }
    }
}

}  // namespace

void check_integrity(const CacheParts& parts, Sequences sequences) {
    parts.index.check_integrity();
    parts.swap_space.check_integrity();
    for (int32_t group = 0; group < parts.shape.num_groups(); ++group) {
        parts.pools[group].check_integrity();
        check_blocks(parts, group, sequences);
        check_cached_blocks(parts, group);
    }
    check_host_blocks(parts, sequences);
    parts.hints.check_integrity(parts.tables.all());
    for (size_t i = 0; i < parts.tables.all().size(); ++i) {
        NVLLM_CHECK(parts.tables.all()[i]->index == i, "a sequence has a wrong index");
    }
}

}  // namespace nvllm
