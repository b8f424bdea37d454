// Confidences, the nodes that go on, and the best of all.
#include "lib/execute/propose/draft_tree.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace nvllm {

void DraftTree::add(int32_t parent, int32_t token, float logprob) {
    const float before = parent < 0 ? 0.0f : node(parent).logprob;
    nodes_.push_back({token, parent, before + std::min(logprob, 0.0f), 0});
}

float DraftTree::least_logprob() const {
    if (std::ssize(nodes_) < most_) return -std::numeric_limits<float>::infinity();
    std::vector<float> all;
    for (const Node& one : nodes_) all.push_back(one.logprob);
    const auto last = all.begin() + (most_ - 1);
    std::ranges::nth_element(all, last, std::ranges::greater{});
    return *last;
}

std::span<const int32_t> DraftTree::grow() {
    grown_.clear();
    if (++num_levels_ >= shape_.depth) return {};
    const float least = least_logprob();
    for (size_t i = level_begin_; i < nodes_.size(); ++i) {
        if (nodes_[i].logprob > least) grown_.push_back(static_cast<int32_t>(i));
    }
    level_begin_ = nodes_.size();
    std::ranges::stable_sort(grown_, std::ranges::greater{},
                             [&](int32_t index) { return node(index).logprob; });
    if (std::ssize(grown_) > shape_.width) grown_.resize(static_cast<size_t>(shape_.width));
    for (const int32_t index : grown_) {
        Node& one = nodes_[static_cast<size_t>(index)];
        computed_.token_ids.push_back(one.token);
        computed_.parents.push_back(one.parent < 0 ? 0 : node(one.parent).row);
        one.row = computed_.size();
    }
    return grown_;
}

int32_t DraftTree::most_rows() const {
    return (std::min(shape_.depth, most_) - 1) * std::min(shape_.width, most_);
}

DraftTokens DraftTree::best() const {
    std::vector<int32_t> order(nodes_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](int32_t index) { return node(index).logprob; });
    if (std::ssize(order) > most_) order.resize(static_cast<size_t>(most_));
    DraftTokens drafts;
    std::vector<int32_t> rows(nodes_.size(), 0);
    for (const int32_t index : order) {
        const Node& one = node(index);
        drafts.token_ids.push_back(one.token);
        if (shape_.width > 1) {
            drafts.parents.push_back(one.parent < 0 ? 0 : rows[static_cast<size_t>(one.parent)]);
        }
        rows[static_cast<size_t>(index)] = drafts.size();
    }
    return drafts;
}

}  // namespace nvllm
