// Edges live in one hash table, so that a node costs little and a step is one look-up.
#include "lib/tokenizer/prefix_trie.h"

namespace nvllm {

PrefixTrie::PrefixTrie() : edges_(16), values_(1, kNoValue), starts_(256, false) {}

size_t PrefixTrie::slot(uint64_t key) const {
    size_t at = (key * 0x9E3779B97F4A7C15u) >> 24;
    for (;; ++at) {
        at &= edges_.size() - 1;
        if (edges_[at].key == key || edges_[at].key == 0) return at;
    }
}

uint32_t PrefixTrie::child(uint32_t node, unsigned char byte) const {
    return edges_[slot(((uint64_t{node} << 8) | byte) + 1)].child;
}

void PrefixTrie::grow() {
    std::vector<Edge> old(edges_.size() * 2);
    old.swap(edges_);
    for (const Edge& edge : old) {
        if (edge.key != 0) edges_[slot(edge.key)] = edge;
    }
}

uint32_t PrefixTrie::child_or_new(uint32_t node, unsigned char byte) {
    if (num_edges_ * 2 >= edges_.size()) grow();
    Edge& edge = edges_[slot(((uint64_t{node} << 8) | byte) + 1)];
    if (edge.key == 0) {
        edge = {((uint64_t{node} << 8) | byte) + 1, static_cast<uint32_t>(values_.size())};
        values_.push_back(kNoValue);
        ++num_edges_;
    }
    return edge.child;
}

void PrefixTrie::insert(std::string_view key, int32_t value) {
    uint32_t node = 0;
    starts_[static_cast<unsigned char>(key[0])] = true;
    for (const char c : key) node = child_or_new(node, static_cast<unsigned char>(c));
    if (values_[node] == kNoValue) values_[node] = value;
}

std::optional<PrefixTrie::Match> PrefixTrie::longest(std::string_view text) const {
    std::optional<Match> best;
    each_prefix(text, [&](size_t length, int32_t value) { best = Match{length, value}; });
    return best;
}

}  // namespace nvllm
