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
        sizes.push_back(group.num_blocks);
    }
    return sizes;
}

}  // namespace

SequenceCache::SequenceCache(CacheManager& manager, std::string_view salt)
    : manager_(&manager), salt_(salt), tables_(manager.num_groups()) {}

SequenceCache::SequenceCache(SequenceCache&& other) noexcept
    : manager_(std::exchange(other.manager_, nullptr)),
      salt_(std::move(other.salt_)),
      tables_(std::move(other.tables_)),
      keys_(std::move(other.keys_)),
      published_(std::exchange(other.published_, nullptr)),
      num_published_(other.num_published_),
      num_shared_(other.num_shared_),
      last_plan_(other.last_plan_) {}

SequenceCache::~SequenceCache() {
    if (manager_ != nullptr) manager_->release(*this);
}

bool SequenceCache::empty() const {
    return std::ranges::all_of(tables_, [](const BlockTable& table) { return table.size() == 0; });
}

CacheManager::CacheManager(const CacheConfig& config)
    : config_(config),
      index_(checked_group_sizes(config), config.hash_key.value_or(HashKey::random())) {
    for (const CacheGroupConfig& group : config.groups) pools_.emplace_back(group.num_blocks);
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

std::string_view CacheManager::extra_of(const SequenceCache& sequence, int32_t block_index) const {
    return block_index == 0 ? std::string_view(sequence.salt_) : std::string_view();
}

std::span<const int32_t> CacheManager::tokens_of(std::span<const int32_t> tokens,
                                                 int32_t block_index) const {
    return tokens.subspan(static_cast<size_t>(block_index) * config_.block_size,
                          config_.block_size);
}

void CacheManager::extend_keys(SequenceCache& sequence, std::span<const int32_t> tokens,
                               int32_t num_blocks) const {
    while (static_cast<int32_t>(sequence.keys_.size()) < num_blocks) {
        const int32_t block = static_cast<int32_t>(sequence.keys_.size());
        const BlockKey parent = block == 0 ? BlockKey{} : sequence.keys_.back();
        sequence.keys_.push_back(
            index_.key(parent, tokens_of(tokens, block), extra_of(sequence, block)));
    }
}

// Whether every group still holds what a query right after `block`, whose content is `node`, reads.
// `run_start`: per group, the first block of the unbroken run that ends there; brought up to date.
bool CacheManager::reaches_back(const PrefixNode& node, int32_t block,
                                std::vector<int32_t>& run_start) const {
    bool reaches = true;
    for (int32_t group = 0; group < num_groups(); ++group) {
        if (node.blocks[group].empty()) run_start[group] = block + 1;
        const int32_t next = (block + 1) * config_.block_size;
        reaches = reaches && run_start[group] <= first_block_read(group, next);
    }
    return reaches;
}

PrefixMatch CacheManager::match(SequenceCache& sequence, std::span<const int32_t> tokens) {
    PrefixMatch match;
    if (!config_.enable_prefix_caching || tokens.empty()) return match;
    const int32_t limit = static_cast<int32_t>(tokens.size() - 1) / config_.block_size;
    extend_keys(sequence, tokens, limit);
    std::vector<int32_t> run_start(pools_.size(), 0);
    int32_t num_matched = 0;
    PrefixNode* node = nullptr;
    for (int32_t block = 0; block < limit; ++block) {
        node = index_.find(node, sequence.keys_[block], tokens_of(tokens, block),
                           extra_of(sequence, block));
        if (node == nullptr) break;
        match.contents.push_back(node);
        if (reaches_back(*node, block, run_start)) num_matched = block + 1;
    }
    match.contents.resize(num_matched);
    match.num_tokens = num_matched * config_.block_size;
    return match;
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

bool CacheManager::fits(int32_t group, const PrefixMatch& match, int32_t size,
                        int32_t headroom) const {
    const int32_t num_matched = static_cast<int32_t>(match.contents.size());
    int32_t needed = size - num_matched + headroom;
    // A matched block that nobody uses is also one that could have been taken for something else.
    for (int32_t i = first_block_read(group, match.num_tokens); i < num_matched; ++i) {
        const BlockId block = *PrefixIndex::block(*match.contents[i], group);
        if (pools_[group].references(block) == 0) ++needed;
    }
    return needed <= pools_[group].num_available();
}

bool CacheManager::admit(SequenceCache& sequence, const PrefixMatch& match, int32_t num_tokens,
                         int32_t largest_step, int32_t headroom) {
    NVLLM_CHECK(sequence.empty(), "only a sequence without blocks is let in");
    for (int32_t group = 0; group < num_groups(); ++group) {
        const int32_t size = admitted_size(group, match.num_tokens, num_tokens, largest_step);
        if (!fits(group, match, size, headroom)) return false;
    }
    take_shared(sequence, match);
    for (int32_t group = 0; group < num_groups(); ++group) {
        const int32_t size = admitted_size(group, match.num_tokens, num_tokens, largest_step);
        BlockTable& table = sequence.tables_[group];
        while (table.size() < size) table.append(take(group));
    }
    if (config_.enable_prefix_caching) {
        queried_tokens_ += num_tokens;
        hit_tokens_ += match.num_tokens;
    }
    return true;
}

// All matched blocks are shared before any block is taken: taking could give one of them away.
void CacheManager::take_shared(SequenceCache& sequence, const PrefixMatch& match) {
    const int32_t num_matched = static_cast<int32_t>(match.contents.size());
    for (int32_t group = 0; group < num_groups(); ++group) {
        BlockTable& table = sequence.tables_[group];
        const int32_t first = first_block_read(group, match.num_tokens);
        table.start_behind(std::min(first, num_matched));
        for (int32_t i = first; i < num_matched; ++i) {
            const BlockId block = *PrefixIndex::block(*match.contents[i], group);
            pools_[group].share(block);
            table.append(block);
        }
    }
    if (num_matched == 0) return;
    index_.pin(*match.contents.back());
    set_published(sequence, match.contents.back(), num_matched);
    sequence.num_shared_ = num_matched;
}

bool CacheManager::allocate(SequenceCache& sequence, int32_t num_positions,
                            std::vector<std::vector<BlockId>>& added) {
    const int32_t size = num_blocks_for(num_positions);
    bool enough = true;
    for (int32_t group = 0; group < num_groups(); ++group) {
        const int32_t needed = size - sequence.tables_[group].size();
        if (needed > pools_[group].num_available()) return false;
        enough = enough && needed <= 0;
    }
    if (enough) return true;
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
    const std::optional<BlockPool::Taken> taken = pools_[group].take();
    NVLLM_CHECK(taken.has_value(), "blocks were counted before they were taken");
    if (taken->was_cached) index_.withdraw(group, taken->block);
    return taken->block;
}

void CacheManager::name_in_plan(SequenceCache& sequence, uint64_t plan_number) {
    NVLLM_CHECK(plan_number >= sequence.last_plan_, "plans are numbered upwards");
    sequence.last_plan_ = plan_number;
}

void CacheManager::plan_committed(uint64_t plan_number) {
    NVLLM_CHECK(plan_number >= committed_plan_, "plans are committed in their order");
    committed_plan_ = plan_number;
    if (parted_.empty()) return;
    const auto kept = std::stable_partition(
        parted_.begin(), parted_.end(),
        [&](const Parted& parted) { return parted.last_plan <= plan_number; });
    for (auto parted = parted_.begin(); parted != kept; ++parted) {
        pools_[parted->group].release(parted->block);
    }
    parted_.erase(parted_.begin(), kept);
}

void CacheManager::commit(SequenceCache& sequence, std::span<const int32_t> tokens,
                          int32_t num_computed) {
    const int32_t num_full = num_computed / config_.block_size;
    if (config_.enable_prefix_caching && sequence.num_published_ < num_full) {
        extend_keys(sequence, tokens, num_full);
        while (sequence.num_published_ < num_full) publish_next_block(sequence, tokens);
    }
    give_back_unread(sequence, num_computed);
}

void CacheManager::publish_next_block(SequenceCache& sequence, std::span<const int32_t> tokens) {
    const int32_t block = sequence.num_published_;
    PrefixNode* node = index_.find_or_add(sequence.published_, sequence.keys_[block],
                                          tokens_of(tokens, block), extra_of(sequence, block));
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockTable& table = sequence.tables_[group];
        if (block < table.num_given_back()) continue;
        index_.publish(*node, group, table[block]);
        pools_[group].mark_cached(table[block]);
    }
    set_published(sequence, node, block + 1);
}

// `node` is pinned for the sequence already, or null.
void CacheManager::set_published(SequenceCache& sequence, PrefixNode* node, int32_t num_blocks) {
    if (sequence.published_ != nullptr) index_.unpin(*sequence.published_);
    sequence.published_ = node;
    sequence.num_published_ = num_blocks;
}

void CacheManager::give_back_unread(SequenceCache& sequence, int32_t num_computed) {
    for (int32_t group = 0; group < num_groups(); ++group) {
        BlockTable& table = sequence.tables_[group];
        const int32_t first = std::min(first_block_read(group, num_computed), table.size());
        while (table.num_given_back() < first) part(sequence, group, table.give_back_first());
    }
}

void CacheManager::part(const SequenceCache& sequence, int32_t group, BlockId block) {
    if (sequence.last_plan_ > committed_plan_) {
        parted_.push_back({sequence.last_plan_, group, block});
    } else {
        pools_[group].release(block);
    }
}

void CacheManager::release(SequenceCache& sequence) {
    for (int32_t group = 0; group < num_groups(); ++group) {
        BlockTable& table = sequence.tables_[group];
        for (int32_t i = table.size() - 1; i >= table.num_given_back(); --i) {
            part(sequence, group, table[i]);
        }
        table.clear();
    }
    set_published(sequence, nullptr, 0);
    sequence.num_shared_ = 0;
}

void CacheManager::discard(SequenceCache& sequence) {
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockTable& table = sequence.tables_[group];
        const int32_t first = std::max(sequence.num_shared_, table.num_given_back());
        for (int32_t i = first; i < sequence.num_published_; ++i) {
            index_.withdraw(group, table[i]);
            pools_[group].forget(table[i]);
        }
    }
    release(sequence);
}

void CacheManager::forget_contents() {
    for (const Parted& parted : parted_) pools_[parted.group].release(parted.block);
    parted_.clear();
    for (int32_t group = 0; group < num_groups(); ++group) {
        BlockPool& pool = pools_[group];
        NVLLM_CHECK(pool.num_used() == 0, "a sequence still holds blocks");
        for (BlockId block = 0; block < pool.num_total(); ++block) {
            if (!pool.is_cached(block)) continue;
            index_.withdraw(group, block);
            pool.forget(block);
        }
    }
}

BlockCounts CacheManager::counts(int32_t group) const {
    const BlockPool& pool = pools_[group];
    return {pool.num_total(), pool.num_used(), pool.num_cached(), pool.num_free(),
            pool.num_evictions()};
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

void CacheManager::check_integrity(std::span<const SequenceCache* const> sequences) const {
    index_.check_integrity();
    for (int32_t group = 0; group < num_groups(); ++group) {
        const BlockPool& pool = pools_[group];
        pool.check_integrity();
        std::vector<int32_t> occurrences(pool.num_total(), 0);
        for (const SequenceCache* sequence : sequences) {
            for (const BlockId block : sequence->tables_[group].held()) ++occurrences[block];
        }
        for (const Parted& parted : parted_) {
            if (parted.group == group) ++occurrences[parted.block];
        }
        for (BlockId block = 0; block < pool.num_total(); ++block) {
            const std::string name = "block " + std::to_string(block);
            NVLLM_CHECK(occurrences[block] == pool.references(block),
                        name + " has other references than occurrences in tables");
            NVLLM_CHECK(pool.is_cached(block) == index_.is_published(group, block),
                        name + " is known differently by pool and index");
        }
    }
}

}  // namespace nvllm
