// Construction of the parts, and the calls that need several of them.
#include "lib/cache/cache_manager.h"

#include <algorithm>

#include "kernels/error.h"
#include "lib/cache/cache_inspection.h"
#include "lib/cache/cache_integrity.h"

namespace nvllm {
namespace {

const CacheConfig& checked(const CacheConfig& config) {
    const auto require = [](bool holds, const char* what) {
        if (!holds) throw Error(ErrorKind::bad_config, std::string("cache: ") + what);
    };
    require(config.block_size >= 1, "block_size must be at least 1");
    require(config.checkpoint_interval >= 0, "checkpoint_interval must not be negative");
    require(config.checkpoint_borders >= 0, "checkpoint_borders must not be negative");
    require(!config.groups.empty(), "there must be at least one cache group");
    for (const CacheGroupConfig& group : config.groups) {
        require(group.num_blocks >= 1, "every cache group needs at least 1 block");
        require(group.window >= 0, "window must not be negative");
        require(group.num_host_blocks >= 0, "num_host_blocks must not be negative");
        require(group.window == 0 || group.kind != CacheGroupKind::state,
                "a group of kind state has no window");
    }
    require(config.eviction_costs.half_life_in_capacities > 0.0,
            "half_life_in_capacities must be above 0");
    find_eviction(config.eviction);
    return config;
}

std::vector<int32_t> sizes(const CacheConfig& config, int32_t CacheGroupConfig::*size) {
    std::vector<int32_t> sizes;
    for (const CacheGroupConfig& group : config.groups) sizes.push_back(group.*size);
    return sizes;
}

std::vector<BlockPool> make_pools(const CacheConfig& config) {
    std::vector<BlockPool> pools;
    const bool ranked = find_eviction(config.eviction).value != nullptr;
    for (const CacheGroupConfig& group : config.groups)
        pools.emplace_back(group.num_blocks, ranked);
    return pools;
}

// In blocks of the largest group.
double half_life(const CacheConfig& config) {
    return config.eviction_costs.half_life_in_capacities *
           std::ranges::max(config.groups, {}, &CacheGroupConfig::num_blocks).num_blocks;
}

HashKey hash_key(const CacheConfig& config) {
    if (config.disk_store != nullptr) return config.disk_store->hash_key();
    return config.hash_key.value_or(HashKey::random());
}

}  // namespace

CacheManager::CacheManager(const CacheConfig& config)
    : shape_(checked(config).block_size, config.groups, config.enable_prefix_caching),
      pools_(make_pools(config)),
      index_(config.block_size, sizes(config, &CacheGroupConfig::num_blocks), hash_key(config)),
      ranking_(find_eviction(config.eviction), config.eviction_costs, half_life(config), shape_,
               pools_),
      hints_(index_, ranking_, config.enable_prefix_caching && ranking_.policy().uses_reuse_hints),
      swap_space_(sizes(config, &CacheGroupConfig::num_host_blocks)),
      host_tier_(config.keeps_evicted && config.enable_prefix_caching, index_, swap_space_,
                 shape_.num_groups()),
      disk_tier_(config.enable_prefix_caching ? config.disk_store : nullptr, config.disk_blocks,
                 shape_, index_, hints_, swap_space_, host_tier_),
      prefix_cache_(config.enable_prefix_caching, shape_, pools_, index_, ranking_, hints_,
                    host_tier_, disk_tier_),
      tables_(shape_, pools_, prefix_cache_, host_tier_, deferred_),
      states_(shape_, pools_, prefix_cache_, tables_, config.checkpoint_interval),
      checkpoint_borders_(config.checkpoint_borders),
      copy_on_write_(shape_, pools_, index_, prefix_cache_, tables_, states_),
      swapper_(shape_, pools_, prefix_cache_, tables_, states_, deferred_, swap_space_, host_tier_),
      compactor_(shape_, pools_, index_, prefix_cache_, tables_, deferred_) {
    index_.set_listener(config.listener);
}

bool CacheManager::admit(SequenceBlocks& sequence, const PrefixMatch& match, int32_t num_tokens,
                         int32_t largest_step, int32_t headroom) {
    if (!tables_.admit(sequence.state_, match, num_tokens, largest_step, headroom)) return false;
    hints_.clear(sequence.state_);
    disk_tier_.end_reads(sequence.state_);
    prefix_cache_.count_query(num_tokens, match.num_tokens);
    return true;
}

void CacheManager::fork(SequenceBlocks& child, const SequenceBlocks& parent,
                        int32_t num_positions) {
    hints_.clear(child.state_);
    copy_on_write_.fork(child.state_, parent.state_, num_positions);
}

void CacheManager::plan_committed(uint64_t plan_number) {
    deferred_.commit(
        plan_number, [&](int32_t group, BlockId block) { prefix_cache_.free(group, block); },
        [&](int32_t group, HostBlockId block) { swap_space_.free(group, block); });
}

void CacheManager::commit(SequenceBlocks& sequence, std::span<const int32_t> tokens,
                          int32_t num_computed) {
    CacheSequence& state = sequence.state_;
    NVLLM_CHECK(!state.swapped_out(), "blocks in host memory cannot have been computed");
    const bool has_full_block = num_computed - state.num_cached * block_size() >= block_size();
    // Most steps of a sequence fill no block.
    if (has_full_block || shape_.has_windows()) commit_blocks(state, tokens, num_computed);
}

void CacheManager::commit_blocks(CacheSequence& sequence, std::span<const int32_t> tokens,
                                 int32_t num_computed) {
    prefix_cache_.insert_full_blocks(sequence, tokens, num_computed);
    if (shape_.has_states()) states_.insert_checkpoints(sequence);
    if (shape_.has_windows()) tables_.free_out_of_window(sequence, num_computed);
}

void CacheManager::free(SequenceBlocks& sequence) {
    CacheSequence& state = sequence.state_;
    for (int32_t group = 0; group < num_groups(); ++group) {
        if (shape_.is_state(group)) states_.clear(state, group);
        tables_.clear(state, group);
    }
    swapper_.free_host_blocks(state);
    hints_.clear(state);
    disk_tier_.end_reads(state);
    state.has_looked_on_disk = false;
    prefix_cache_.set_cached(state, nullptr, 0);
    state.num_shared = 0;
    state.num_positions = 0;
}

void CacheManager::discard(SequenceBlocks& sequence) {
    prefix_cache_.remove_own(sequence.state_);
    free(sequence);
}

void CacheManager::clear() {
    plan_committed(deferred_.last_plan());
    disk_tier_.forget_worker();
    host_tier_.clear();
    for (int32_t group = 0; group < num_groups(); ++group) {
        NVLLM_CHECK(pools_[group].num_used() == 0, "a sequence still holds blocks");
        NVLLM_CHECK(swap_space_.num_used(group) == 0, "a sequence still holds host blocks");
        prefix_cache_.clear(group);
    }
}

CacheReset CacheManager::clear_unused() {
    CacheReset reset;
    disk_tier_.clear();
    host_tier_.clear();
    for (int32_t group = 0; group < num_groups(); ++group) {
        reset.removed += pools_[group].num_cached();
        reset.in_use += pools_[group].num_used();
        prefix_cache_.clear(group);
    }
    return reset;
}

int32_t CacheManager::num_available() const {
    int32_t fewest = std::numeric_limits<int32_t>::max();
    for (int32_t group = 0; group < num_groups(); ++group) {
        if (shape_.is_state(group)) continue;
        fewest = std::min(fewest, pools_[group].num_available());
    }
    return fewest;
}

double CacheManager::fragmentation() const { return nvllm::fragmentation(pools_); }

BlockCounts CacheManager::counts(int32_t group) const { return block_counts(pools_[group]); }

CacheStats CacheManager::stats() const {
    return {total_counts(pools_), prefix_cache_.num_queried_tokens(),
            prefix_cache_.num_hit_tokens(), host_tier_.stats(), disk_tier_.stats()};
}

DetailedCacheStats CacheManager::detailed_stats() const { return nvllm::detailed_stats(parts()); }

void CacheManager::check_integrity(std::span<const SequenceBlocks* const> sequences) const {
    std::vector<const CacheSequence*> states;
    for (const SequenceBlocks* sequence : sequences) states.push_back(&sequence->state_);
    nvllm::check_integrity(parts(), states);
}

CacheParts CacheManager::parts() const {
    return {shape_,        pools_,     index_,   ranking_,       hints_,
            prefix_cache_, deferred_,  tables_,  copy_on_write_, swap_space_,
            host_tier_,    disk_tier_, swapper_, compactor_};
}

}  // namespace nvllm
