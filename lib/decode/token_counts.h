// The tokens of a sequence, and how often each was generated: the input of the penalties, updated
// incrementally.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nvllm {

struct SeenToken {
    int32_t token_id = 0;
    int32_t num_generated = 0;  // 0: only in the prompt
};

// Distinct tokens in the order of their first appearance, found by open addressing.
class TokenCounts {
  public:
    // Reserves memory for this many distinct tokens: adding them does not allocate.
    void reserve(size_t num_distinct);

    void add_prompt_token(int32_t token_id) { find_or_add(token_id); }
    void add_generated_token(int32_t token_id) { ++find_or_add(token_id).num_generated; }

    std::span<const SeenToken> tokens() const { return tokens_; }

  private:
    SeenToken& find_or_add(int32_t token_id);
    size_t slot_of(int32_t token_id) const;
    void rebuild(size_t num_slots);

    std::vector<SeenToken> tokens_;
    std::vector<uint32_t>
        slots_;  // 1 + index into tokens_, 0: free; a power of two, at most half full
};

}  // namespace nvllm
