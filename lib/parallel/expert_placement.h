// Which ranks have which experts of a layer, so that each has about as many tokens to compute.
//
// Each rank has as many slots. Where there are more slots than experts, the experts with the most
// tokens are on several ranks, which take turns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nvllm {

// The expert of each slot, rank by rank; those of a rank ascending and different.
using ExpertSlots = std::vector<int32_t>;

// By the tokens that each expert got. (As DeepSeek's EPLB: a further copy to the expert whose
// copies have the most tokens each, then the heaviest to the least loaded rank.) REQUIRES: `ranks`
// divides `slots`; as many slots as experts or more, and at most `ranks` for each.
ExpertSlots balanced_experts(std::span<const int64_t> tokens, int32_t ranks, int32_t slots);

// Tokens of the rank with the most beside the mean: 1 where all have as many. 0 without tokens.
double imbalance(const ExpertSlots& slots, std::span<const int64_t> tokens, int32_t ranks);

}  // namespace nvllm
