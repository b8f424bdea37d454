// What must hold between tables, pools, prefix index and expectations; for tests.
#include <string>

#include "kernels/error.h"
#include "lib/cache/cache_manager.h"

namespace nvllm {

void CacheManager::check_integrity(std::span<const SequenceBlocks* const> sequences) const {
    index_.check_integrity();
    swap_space_.check_integrity();
    for (int32_t group = 0; group < num_groups(); ++group) {
        pools_[group].check_integrity();
        check_blocks(group, sequences);
        check_contents(group);
    }
    check_host_blocks(sequences);
    check_expectations();
    for (size_t place = 0; place < sequences_.size(); ++place) {
        NVLLM_CHECK(sequences_[place]->place_ == place, "a sequence is in the wrong place");
    }
}

void CacheManager::check_blocks(int32_t group,
                                std::span<const SequenceBlocks* const> sequences) const {
    const BlockPool& pool = pools_[group];
    std::vector<int32_t> occurrences(pool.num_total(), 0);
    for (const SequenceBlocks* sequence : sequences) {
        const BlockTable& table = sequence->tables_[group];
        for (const BlockId block : table.held()) ++occurrences.at(block);
        for (const BlockId block : table.blocks()) {
            NVLLM_CHECK(block < pool.num_total(), "a table names a block that there is not");
        }
    }
    for (const PendingFree& parted : parted_) {
        if (parted.group == group) ++occurrences.at(parted.block);
    }
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        const std::string name = "block " + std::to_string(block);
        NVLLM_CHECK(occurrences[block] == pool.references(block),
                    name + " has other references than occurrences in tables");
        NVLLM_CHECK(pool.is_cached(block) == index_.is_published(group, block),
                    name + " is known differently by pool and index");
    }
}

void CacheManager::check_contents(int32_t group) const {
    const BlockPool& pool = pools_[group];
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        if (!pool.is_cached(block) || pool.references(block) > 0) continue;
        const std::string name = "block " + std::to_string(block);
        const PrefixNode& node = *index_.node(group, block);
        NVLLM_CHECK(node.groups[group].num_blocks == 1,
                    name + " is unused and cached, though another one holds the same");
        if (eviction_.value == nullptr) continue;
        const EvictionRank known = pool.rank_of(block);
        const EvictionRank now = rank(node, group);
        NVLLM_CHECK(known.has_children == now.has_children && known.expected == now.expected,
                    name + " stands in the wrong part of the order of eviction");
    }
}

void CacheManager::check_host_blocks(std::span<const SequenceBlocks* const> sequences) const {
    std::vector<int32_t> held(pools_.size(), 0);
    const auto hold = [&](int32_t group, HostBlockId block) {
        NVLLM_CHECK(swap_space_.is_taken(group, block), "a held host block is free");
        ++held[group];
    };
    for (const SequenceBlocks* sequence : sequences) {
        for (const auto& host : sequence->returning_) hold(host.group, host.block);
        if (!sequence->swapped_out()) continue;
        for (int32_t group = 0; group < num_groups(); ++group) {
            for (const HostBlockId block : sequence->swapped_[group].blocks) hold(group, block);
        }
    }
    for (const PendingFree& parted : host_parted_) hold(parted.group, parted.block);
    for (int32_t group = 0; group < num_groups(); ++group) {
        NVLLM_CHECK(held[group] == swap_space_.num_used(group), "a host block has no owner");
    }
}

void CacheManager::check_expectations() const {
    std::unordered_map<const PrefixNode*, int32_t> expected;
    size_t num_waiting = 0;
    for (const SequenceBlocks* sequence : sequences_) {
        int32_t depth = 0;
        for (const PrefixNode* node = sequence->expected_; node != nullptr; node = node->parent) {
            ++expected[node];
            ++depth;
        }
        NVLLM_CHECK(depth == sequence->num_expected_, "an expectation has the wrong depth");
        num_waiting += sequence->num_expected_ < sequence->expected_limit_;
    }
    NVLLM_CHECK(num_waiting == awaited_.size(), "an expectation is lost");
    for (const PrefixNode* node : index_.nodes()) {
        const auto found = expected.find(node);
        NVLLM_CHECK(node->num_expected == (found == expected.end() ? 0 : found->second),
                    "a content is expected by another number of sequences");
    }
}

}  // namespace nvllm
