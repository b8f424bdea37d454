// How drafts are proposed, and how many.
#pragma once

#include <cstdint>
#include <string>

namespace nvllm {

// Drafts that a step verifies for one sequence, at most.
inline constexpr int32_t kMostDrafts = 32;

struct SpeculationConfig {
    // A row of proposers.cc, or of the worker's methods; empty: nothing is proposed.
    std::string method;
    bool by_worker = false;              // the method is one of the worker's
    int32_t num_speculative_tokens = 4;  // drafts of a sequence in a step: 1 to kMostDrafts
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
    // Tokens that a step computes in about the time of one, until steps were measured.
    int32_t free_rows = 8;

    bool enabled() const { return !method.empty(); }
    // Throws bad_config, naming the key, its value and what it must be.
    void check() const;
};

}  // namespace nvllm
