// The tree of drafts that a model proposes to a sequence, level by level (EAGLE-2's dynamic draft
// trees, Li et al. 2024).
//
// A node's confidence is the product of the draft's probabilities up to it. Of each level the most
// confident nodes get children, the likeliest tokens after each; in the end the most confident of
// all nodes are proposed, which descend from each other because no child is more confident than its
// parent. A node that is not among the best so far has no descendant among them, so it gets no
// children: fewer are computed when few are wanted. A chain is the tree of width 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/execute/propose/proposer_setup.h"
#include "lib/request/draft_tokens.h"

namespace nvllm {

class DraftTree {
  public:
    struct Node {
        int32_t token = 0;
        int32_t parent = -1;   // a node; -1: the last known token
        float logprob = 0.0f;  // of all tokens up to it
        int32_t row = 0;       // of computed(), from 1 on; 0: it has no children
    };

    DraftTree() = default;
    // `most`: nodes that are proposed.
    DraftTree(DraftShape shape, int32_t most) : shape_(shape), most_(most) {}

    // A node of the level that grow() began. REQUIRES: likelier ones of the same parent first.
    void add(int32_t parent, int32_t token, float logprob);
    // Ends the level: the nodes that get children in the next one, most confident first; empty: the
    // tree is done.
    std::span<const int32_t> grow();

    const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
    // The nodes that got children, in the order of grow(): they are computed, each in a row.
    const DraftTokens& computed() const { return computed_; }
    // Rows of computed() at most.
    int32_t most_rows() const;
    // The proposed nodes, most confident first; without parents of width 1.
    DraftTokens best() const;

  private:
    // So confident is the last of the best nodes so far; -inf while there are too few.
    float least_logprob() const;

    DraftShape shape_;
    int32_t most_ = 0;
    int32_t num_levels_ = 0;
    size_t level_begin_ = 0;
    std::vector<Node> nodes_;
    std::vector<int32_t> grown_;  // of the last grow()
    DraftTokens computed_;
};

}  // namespace nvllm
