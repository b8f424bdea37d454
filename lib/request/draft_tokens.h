// Draft tokens: a guess at the tokens that follow a sequence's last known one, verified in one
// step.
#pragma once

#include <cstdint>
#include <vector>

namespace nvllm {

// A chain, or a tree. The rows of an entry with drafts are the last known token (row 0), then one
// row a draft token.
struct DraftTokens {
    std::vector<int32_t> token_ids;
    // The row that each draft token follows, smaller than its own; empty for a chain.
    std::vector<int32_t> parents;

    // The row that row `row` follows. REQUIRES: 1 <= row <= size().
    int32_t parent(int32_t row) const {
        return parents.empty() ? row - 1 : parents[static_cast<size_t>(row - 1)];
    }
    // Whether any follows another row than the one before it.
    bool branches() const {
        for (int32_t row = 1; row <= static_cast<int32_t>(parents.size()); ++row) {
            if (parent(row) != row - 1) return true;
        }
        return false;
    }

    bool empty() const { return token_ids.empty(); }
    int32_t size() const { return static_cast<int32_t>(token_ids.size()); }

    bool operator==(const DraftTokens&) const = default;
};

}  // namespace nvllm
