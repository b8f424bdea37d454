// The table of eviction policies.
#include "lib/cache/eviction.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Every hit on a node is one on its parents too: children never have more. Hits do not decay: a
// block with many old hits stays long (see the replay test); the values of "cost" decay.
double fewest_hits(const BlockUse& use, const EvictionCosts&) {
    return static_cast<double>(use.num_hits);
}

// The ends of the longest chains: a child is always deeper than its parent.
double deepest(const BlockUse& use, const EvictionCosts&) {
    return -static_cast<double>(use.depth);
}

// The logarithm of the time expected to be saved: chance of reuse times cost. The chance of a
// node without a reuse hint grows with its recent uses and halves with every half-life, the
// combined recency and frequency of Lee et al., "LRFU", IEEE Transactions on Computers 2001: as a
// logarithm it falls equally for all, so the order stays while time passes.
double expected_saving(const BlockUse& use, const EvictionCosts& costs) {
    const double cost = std::log2(recompute_cost(use, costs));
    if (use.expected) return cost;
    return cost + std::log2(costs.chance_after_first_use * use.recent_uses) + use.last_use;
}

// Why children need no rule of their own but under "cost":
//   lru   a sequence frees its last block first, so children are unused longer than parents
//   lfu   children have at most as many hits, and of equal ones the longest unused is evicted
//   size  children are deeper
//   cost  a deeper block costs more: its parent would be evicted first, and the child be lost too
constexpr EvictionPolicy kPolicies[] = {
    {"lru", nullptr, false, false},
    {"lfu", fewest_hits, false, false},
    {"size", deepest, false, false},
    {"cost", expected_saving, true, true},
};

}  // namespace

double recompute_cost(const BlockUse& use, const EvictionCosts& costs) {
    // The middle of the block stands for all its positions.
    double positions = (use.depth + 0.5) * use.block_size;
    if (use.window > 0) positions = std::min(positions, static_cast<double>(use.window));
    return use.block_size * (costs.per_token + costs.per_token_and_position * positions);
}

std::span<const EvictionPolicy> eviction_policies() { return kPolicies; }

const EvictionPolicy& find_eviction(std::string_view name) {
    std::string names;
    for (const EvictionPolicy& policy : kPolicies) {
        if (policy.name == name) return policy;
        names += (names.empty() ? "" : ", ") + std::string(policy.name);
    }
    throw Error(ErrorKind::bad_config,
                "--eviction-policy is \"" + std::string(name) + "\"; it must be one of: " + names);
}

}  // namespace nvllm
