// The hash table behind TokenCounts.
#include "lib/decode/token_counts.h"

#include <bit>

namespace nvllm {

void TokenCounts::reserve(size_t num_distinct) {
    tokens_.reserve(num_distinct);
    const size_t num_slots = std::bit_ceil(2 * num_distinct + 2);
    if (num_slots > slots_.size()) rebuild(num_slots);
}

SeenToken& TokenCounts::find_or_add(int32_t token_id) {
    if (2 * (tokens_.size() + 1) > slots_.size()) reserve(2 * tokens_.size() + 16);
    const size_t slot = slot_of(token_id);
    if (slots_[slot] == 0) {
        tokens_.push_back({token_id, 0});
        slots_[slot] = static_cast<uint32_t>(tokens_.size());
    }
    return tokens_[slots_[slot] - 1];
}

// The slot that holds the token, or the free one where it belongs.
size_t TokenCounts::slot_of(int32_t token_id) const {
    const size_t mask = slots_.size() - 1;
    // Adjacent ids are common; an odd multiplier (Fibonacci hashing) spreads them.
    const uint32_t hash = static_cast<uint32_t>(token_id) * 0x9E3779B1u;
    size_t slot = (hash ^ (hash >> 15)) & mask;
    while (slots_[slot] != 0 && tokens_[slots_[slot] - 1].token_id != token_id) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

void TokenCounts::rebuild(size_t num_slots) {
    slots_.assign(num_slots, 0);
    for (size_t index = 0; index < tokens_.size(); ++index) {
        slots_[slot_of(tokens_[index].token_id)] = static_cast<uint32_t>(index + 1);
    }
}

}  // namespace nvllm
