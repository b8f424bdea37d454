// Hints that grow with the prefix cache.
#include "lib/cache/prefix/reuse_hints.h"

#include <vector>

#include "kernels/error.h"
#include "lib/cache/prefix/prefix_keys.h"

namespace nvllm {

void ReuseHints::set(CacheSequence& sequence, std::span<const int32_t> tokens) {
    clear(sequence);
    if (!enabled_ || tokens.empty()) return;
    const int32_t limit = num_reusable_blocks(tokens, index_.block_size());
    extend_keys(index_, sequence, tokens, limit);
    CacheSequence::ReuseHint& hint = sequence.hint;
    hint.limit = limit;
    while (hint.num_nodes < limit) {
        PrefixNode* next = find_block(index_, hint.node, sequence, tokens, hint.num_nodes);
        if (next == nullptr) break;
        hint.node = next;
        count(*next, 1);
        ++hint.num_nodes;
    }
    if (hint.node != nullptr) index_.pin(*hint.node);
    wait_for_next(sequence);
}

void ReuseHints::clear(CacheSequence& sequence) {
    CacheSequence::ReuseHint& hint = sequence.hint;
    if (hint.limit == 0) return;
    stop_waiting(sequence);
    for (PrefixNode* node = hint.node; node != nullptr; node = node->parent) count(*node, -1);
    if (hint.node != nullptr) index_.unpin(*hint.node);
    hint = {};
}

void ReuseHints::count(PrefixNode& node, int32_t change) {
    const bool was_expected = node.num_expected > 0;
    node.num_expected += change;
    if (was_expected != (node.num_expected > 0)) ranking_.rerank(node);
}

void ReuseHints::wait_for_next(CacheSequence& sequence) {
    if (sequence.hint.num_nodes == sequence.hint.limit) return;
    waiting_.emplace(sequence.keys[sequence.hint.num_nodes], &sequence);
}

void ReuseHints::stop_waiting(CacheSequence& sequence) {
    if (sequence.hint.num_nodes == sequence.hint.limit) return;
    auto [entry, end] = waiting_.equal_range(sequence.keys[sequence.hint.num_nodes]);
    while (entry != end && entry->second != &sequence) ++entry;
    NVLLM_CHECK(entry != end, "a reuse hint is lost");
    waiting_.erase(entry);
}

void ReuseHints::replace(const CacheSequence& from, CacheSequence& to) noexcept {
    if (to.hint.num_nodes == to.hint.limit) return;
    for (auto& [key, sequence] : waiting_) {
        if (sequence == &from) sequence = &to;
    }
}

// Equal keys are taken for equal contents here, because a hint may be wrong.
void ReuseHints::extend_hints(PrefixNode& node) {
    const auto [begin, end] = waiting_.equal_range(node.key);
    std::vector<CacheSequence*> waiting;
    for (auto entry = begin; entry != end; ++entry) {
        if (entry->second->hint.node == node.parent) waiting.push_back(entry->second);
    }
    for (CacheSequence* sequence : waiting) {
        stop_waiting(*sequence);
        count(node, 1);
        index_.pin(node);
        if (sequence->hint.node != nullptr) index_.unpin(*sequence->hint.node);
        sequence->hint.node = &node;
        ++sequence->hint.num_nodes;
        wait_for_next(*sequence);
    }
}

void ReuseHints::check_integrity(std::span<CacheSequence* const> sequences) const {
    std::unordered_map<const PrefixNode*, int32_t> expected;
    size_t num_waiting = 0;
    for (const CacheSequence* sequence : sequences) {
        int32_t depth = 0;
        for (const PrefixNode* node = sequence->hint.node; node != nullptr; node = node->parent) {
            ++expected[node];
            ++depth;
        }
        NVLLM_CHECK(depth == sequence->hint.num_nodes, "a reuse hint has the wrong depth");
        num_waiting += sequence->hint.num_nodes < sequence->hint.limit;
    }
    NVLLM_CHECK(num_waiting == waiting_.size(), "a reuse hint is lost");
    for (const PrefixNode* node : index_.nodes()) {
        const auto found = expected.find(node);
        NVLLM_CHECK(node->num_expected == (found == expected.end() ? 0 : found->second),
                    "a node counts another number of reuse hints than sequences have");
    }
}

}  // namespace nvllm
