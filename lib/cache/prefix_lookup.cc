// Keys of blocks, cached prefixes, and what waiting sequences will ask for.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/error.h"
#include "lib/cache/cache_manager.h"

namespace nvllm {

std::string_view CacheManager::extra_of(const SequenceBlocks& sequence, int32_t block_index) const {
    for (const BlockExtra& extra : sequence.extras_) {
        if (extra.block == block_index) return extra.bytes;
        if (extra.block > block_index) break;
    }
    return {};
}

std::span<const int32_t> CacheManager::tokens_of(std::span<const int32_t> tokens,
                                                 int32_t block_index) const {
    return tokens.subspan(static_cast<size_t>(block_index) * config_.block_size,
                          config_.block_size);
}

void CacheManager::extend_keys(SequenceBlocks& sequence, std::span<const int32_t> tokens,
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
        if (node.groups[group].num_blocks == 0) run_start[group] = block + 1;
        const int32_t next = (block + 1) * config_.block_size;
        reaches = reaches && run_start[group] <= first_block_read(group, next);
    }
    return reaches;
}

PrefixMatch CacheManager::match(SequenceBlocks& sequence, std::span<const int32_t> tokens) {
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

// All matched blocks are shared before any block is taken: taking could give one of them away.
void CacheManager::take_shared(SequenceBlocks& sequence, const PrefixMatch& match) {
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
    tick_ += num_matched;
    for (PrefixNode* node : match.contents) note_use(*node);
    if (num_matched == 0) return;
    index_.pin(*match.contents.back());
    set_published(sequence, match.contents.back(), num_matched);
    sequence.num_shared_ = num_matched;
}

// Blocks before a window's reach are not taken, but found all the same.
void CacheManager::note_use(PrefixNode& node) {
    ++node.num_hits;
    if (eviction_.value == nullptr) {
        node.last_use = tick_;
        return;
    }
    node.recent_uses = 1.0 + node.recent_uses * std::exp2(-half_lives(tick_ - node.last_use));
    node.last_use = tick_;
    for (int32_t group = 0; group < num_groups(); ++group) rank_anew(node, group);
}

void CacheManager::expect(SequenceBlocks& sequence, std::span<const int32_t> tokens) {
    forget_expectation(sequence);
    if (!config_.enable_prefix_caching || !eviction_.heeds_expectations || tokens.empty()) return;
    const int32_t limit = static_cast<int32_t>(tokens.size() - 1) / config_.block_size;
    extend_keys(sequence, tokens, limit);
    sequence.expected_limit_ = limit;
    PrefixNode* node = nullptr;
    while (sequence.num_expected_ < limit) {
        const int32_t block = sequence.num_expected_;
        PrefixNode* next = index_.find(node, sequence.keys_[block], tokens_of(tokens, block),
                                       extra_of(sequence, block));
        if (next == nullptr) break;
        node = next;
        count_expected(*node, 1);
        ++sequence.num_expected_;
    }
    if (node != nullptr) index_.pin(*node);
    sequence.expected_ = node;
    await_next(sequence);
}

void CacheManager::forget_expectation(SequenceBlocks& sequence) {
    if (sequence.expected_limit_ == 0) return;
    stop_awaiting(sequence);
    for (PrefixNode* node = sequence.expected_; node != nullptr; node = node->parent) {
        count_expected(*node, -1);
    }
    if (sequence.expected_ != nullptr) index_.unpin(*sequence.expected_);
    sequence.expected_ = nullptr;
    sequence.num_expected_ = sequence.expected_limit_ = 0;
}

void CacheManager::count_expected(PrefixNode& node, int32_t change) {
    const bool was_expected = node.num_expected > 0;
    node.num_expected += change;
    if (was_expected == (node.num_expected > 0)) return;
    for (int32_t group = 0; group < num_groups(); ++group) rank_anew(node, group);
}

void CacheManager::await_next(SequenceBlocks& sequence) {
    if (sequence.num_expected_ == sequence.expected_limit_) return;
    awaited_.emplace(sequence.keys_[sequence.num_expected_], &sequence);
}

void CacheManager::stop_awaiting(SequenceBlocks& sequence) {
    if (sequence.num_expected_ == sequence.expected_limit_) return;
    auto [entry, end] = awaited_.equal_range(sequence.keys_[sequence.num_expected_]);
    while (entry != end && entry->second != &sequence) ++entry;
    NVLLM_CHECK(entry != end, "an expectation is lost");
    awaited_.erase(entry);
}

// A content came that was not there: those who wait for it wait for the next one. Equal keys are
// taken for equal contents here: an expectation is a hint.
void CacheManager::meet_expectations(PrefixNode& node) {
    if (awaited_.empty()) return;
    const auto [begin, end] = awaited_.equal_range(node.key);
    std::vector<SequenceBlocks*> waiting;
    for (auto entry = begin; entry != end; ++entry) {
        if (entry->second->expected_ == node.parent) waiting.push_back(entry->second);
    }
    for (SequenceBlocks* sequence : waiting) {
        stop_awaiting(*sequence);
        count_expected(node, 1);
        index_.pin(node);
        if (sequence->expected_ != nullptr) index_.unpin(*sequence->expected_);
        sequence->expected_ = &node;
        ++sequence->num_expected_;
        await_next(*sequence);
    }
}

}  // namespace nvllm
