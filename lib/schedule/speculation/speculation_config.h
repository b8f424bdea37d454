// How drafts are proposed, and how many.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace nvllm {

// Drafts that a step verifies for one sequence, at most.
inline constexpr int32_t kMostDrafts = 32;
// Drafts of a tree that have further ones, at most: attention takes no larger trees.
inline constexpr int32_t kMostTreeRows = 64;

struct SpeculationConfig {
    // A row of proposers.cc, or of the worker's methods; empty: nothing is proposed.
    std::string method;
    bool by_worker = false;  // the method is one of the worker's
    // Tokens that drafts go ahead of a sequence in a step: 1 to kMostDrafts.
    int32_t num_speculative_tokens = 4;
    // Of the worker's methods: how many drafts of each level have further ones, and how many may
    // follow the same token; 1: drafts are a chain.
    int32_t tree_width = 1;
    // Of a tree: drafts of a sequence in a step; 0: as many as kMostDrafts and the tree allow.
    int32_t tree_tokens = 0;
    // Whether they become fewer, or none, where they do not pay (draft_lengths.h). Else a sequence
    // always gets as many as are proposed.
    bool adaptive = true;
    // Tokens at the end of a text that are looked up: so many at most, and at least.
    int32_t prompt_lookup_max = 4;
    int32_t prompt_lookup_min = 2;
    // Of "suffix": tokens of past answers that are remembered.
    int32_t suffix_cached_tokens = 1 << 18;
    // Of "synthetic": how often a proposed token is right, if all before it were.
    double synthetic_acceptance = 0.8;
    // Whether tokens of a text that must follow by a grammar are proposed (forced_drafts.h),
    // whatever the method is.
    bool proposes_forced = false;
    // Sequences that have drafts in a step, at most.
    int32_t max_sequences = std::numeric_limits<int32_t>::max();
    // Tokens that a step computes in about the time of one, until steps were measured.
    int32_t free_rows = 8;

    bool enabled() const { return !method.empty(); }
    bool is_tree() const { return tree_width > 1; }
    // Drafts of a sequence in a step.
    int32_t most_drafts() const {
        if (!is_tree()) return num_speculative_tokens;
        const int32_t all = std::min(kMostDrafts, num_speculative_tokens * tree_width);
        return tree_tokens > 0 ? std::min(tree_tokens, all) : all;
    }
    // Throws bad_config, naming the key, its value and what it must be.
    void check() const;
};

}  // namespace nvllm
