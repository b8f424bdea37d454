// Byte-pair merging where any two neighbours whose joined text is a token may merge (SentencePiece,
// tiktoken).
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <string_view>
#include <vector>

#include "lib/tokenizer/token_model.h"

namespace nvllm {

struct MergeSymbol {
    uint32_t begin = 0;
    uint32_t length = 0;  // 0 once merged into another
    int32_t previous = -1;
    int32_t next = -1;
    bool frozen = false;  // never merges

    std::string_view text_in(std::string_view text) const { return text.substr(begin, length); }
};

// Appends a symbol behind the last one.
inline void append_symbol(std::vector<MergeSymbol>& symbols, size_t begin, size_t length,
                          bool frozen) {
    const auto at = static_cast<int32_t>(symbols.size());
    if (at > 0) symbols.back().next = at;
    symbols.push_back(
        {static_cast<uint32_t>(begin), static_cast<uint32_t>(length), at - 1, -1, frozen});
}

// Merges until nothing merges: lowest order first, and among equals the leftmost.
// `order_of(joined)` gives the order of a joined text, or nothing when it is no token;
// `merged(left, joined)` hears of each candidate. n log n in symbols.
template <typename OrderOf, typename Candidate>
void merge_symbols(std::string_view text, std::vector<MergeSymbol>& symbols, size_t longest_token,
                   OrderOf&& order_of, Candidate&& candidate, EncodeWork& work) {
    struct Entry {
        double order;
        int32_t left;
        uint32_t length;  // of both sides together: tells entries that are out of date
        bool operator<(const Entry& other) const {
            return order != other.order ? order > other.order : left > other.left;
        }
    };
    std::vector<Entry> storage;
    storage.reserve(symbols.size());
    std::priority_queue<Entry> agenda(std::less<Entry>(), std::move(storage));
    const auto at = [&](int32_t index) -> MergeSymbol& {
        return symbols[static_cast<size_t>(index)];
    };
    const auto consider = [&](int32_t left_index) {
        ++work.steps;
        if (left_index < 0 || at(left_index).next < 0) return;
        const MergeSymbol& left = at(left_index);
        const MergeSymbol& right = at(left.next);
        const size_t length = size_t{left.length} + right.length;
        if (left.frozen || right.frozen || length > longest_token) return;
        const std::string_view joined = text.substr(left.begin, length);
        const std::optional<double> order = order_of(joined);
        if (!order) return;
        candidate(left, joined);
        agenda.push({*order, left_index, static_cast<uint32_t>(length)});
    };
    for (size_t i = 0; i + 1 < symbols.size(); ++i) consider(static_cast<int32_t>(i));
    while (!agenda.empty()) {
        const Entry best = agenda.top();
        agenda.pop();
        ++work.steps;
        MergeSymbol& left = at(best.left);
        if (left.length == 0 || left.next < 0) continue;
        MergeSymbol& right = at(left.next);
        if (left.length + right.length != best.length) continue;
        left.length = best.length;
        right.length = 0;
        left.next = right.next;
        if (right.next >= 0) at(right.next).previous = best.left;
        consider(left.previous);
        consider(best.left);
    }
}

}  // namespace nvllm
