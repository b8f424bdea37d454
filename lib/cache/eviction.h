// Eviction policies: which cached block that no sequence uses is evicted first.
//
// Time is a logical clock, a count of blocks asked for (ticks): the same requests in the same order
// always evict the same blocks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace nvllm {

// Costs of computing a block again, and the decay of its chance of reuse. Only the ratios of the
// costs matter; measured seconds are allowed.
struct EvictionCosts {
    // One token through the layers, without its reading of earlier positions.
    double per_token = 1.0;
    // One token's reading of one earlier position. The default is of a model of 1 to 7 billion
    // parameters: 4 * layers * hidden operations against 2 for each parameter.
    double per_token_and_position = 1e-4;
    // The chance that a content used once and just now is used again.
    double chance_after_first_use = 0.5;
    // A use counts half after as many blocks were asked for as the cache has, times this.
    double half_life_in_capacities = 1.0;
};

// Eviction metadata of a cached block.
struct BlockUse {
    int32_t depth = 0;         // blocks before it in its sequence
    int32_t block_size = 0;    // tokens
    int32_t window = 0;        // positions that a query of its group reads; 0: all
    int64_t num_hits = 0;      // sequences that found it in the cache
    double recent_uses = 1.0;  // uses, each halved for every half-life that passed until last_use
    double last_use = 0.0;     // in half-lives since the start
    bool expected = false;     // a waiting sequence will ask for it
};

struct EvictionPolicy {
    const char* name;
    // The block with the smaller value is evicted first, of equal ones the one longest unused.
    // Values are compared without an update: decay must not change their order. Null: the longest
    // unused is evicted first.
    double (*value)(const BlockUse& use, const EvictionCosts& costs);
    // In groups without a window, a block with a cached child is evicted after the child: without
    // its parent a child cannot be found.
    bool children_first;
    // Blocks with a reuse hint are certain of reuse. Their values do not decay; the values of
    // others are lowered by the half-lives since the start when the two are compared.
    bool uses_reuse_hints;
};

// Time to compute a block again, in the unit of the costs.
double recompute_cost(const BlockUse& use, const EvictionCosts& costs);

// All policies.
std::span<const EvictionPolicy> eviction_policies();

// The policy with this name. Throws bad_config, with all names, if there is none.
const EvictionPolicy& find_eviction(std::string_view name);

}  // namespace nvllm
