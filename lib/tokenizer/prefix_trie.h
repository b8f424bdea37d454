// A trie over byte strings: which of a set of keys a text starts with.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace nvllm {

// Filled by insert(), then immutable and thread-safe. Memory grows with the bytes of all keys.
class PrefixTrie {
  public:
    static constexpr int32_t kNoValue = -1;

    PrefixTrie();
    // The first value inserted for a key stays. REQUIRES: key is not empty, value >= 0.
    void insert(std::string_view key, int32_t value);
    bool empty() const { return values_.size() == 1; }

    // Calls found(length, value) for every key that `text` starts with, shortest first.
    template <typename Found>
    void each_prefix(std::string_view text, Found&& found) const {
        uint32_t node = 0;
        for (size_t i = 0; i < text.size(); ++i) {
            node = child(node, static_cast<unsigned char>(text[i]));
            if (node == 0) return;
            if (values_[node] != kNoValue) found(i + 1, values_[node]);
        }
    }

    struct Match {
        size_t length = 0;
        int32_t value = kNoValue;
    };
    std::optional<Match> longest(std::string_view text) const;
    // Whether some key starts with this byte.
    bool may_start(unsigned char byte) const { return starts_[byte]; }

  private:
    struct Edge {
        uint64_t key = 0;  // (node << 8 | byte) + 1; 0 when free
        uint32_t child = 0;
    };
    uint32_t child(uint32_t node, unsigned char byte) const;
    uint32_t child_or_new(uint32_t node, unsigned char byte);
    size_t slot(uint64_t key) const;
    void grow();

    std::vector<Edge> edges_;
    size_t num_edges_ = 0;
    std::vector<int32_t> values_;
    std::vector<bool> starts_;
};

}  // namespace nvllm
