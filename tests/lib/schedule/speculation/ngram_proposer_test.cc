// Look-up of the last tokens in the text before them.
#include "lib/schedule/speculation/ngram_proposer.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace nvllm {
namespace {

using Tokens = std::vector<int32_t>;

Tokens proposed(const Tokens& text, int32_t count, int32_t least, int32_t most) {
    return copy_on(text, find_earlier(text, least, most), count).token_ids;
}

// The same by the plainest means: every position, every length.
EarlierMatch find_slowly(const Tokens& text, int32_t least, int32_t most) {
    for (int32_t length = most; length >= least; --length) {
        for (size_t end = text.size() - 1; end >= static_cast<size_t>(length); --end) {
            bool same = true;
            for (size_t i = 1; i <= static_cast<size_t>(length); ++i) {
                same = same && text[end - i] == text[text.size() - i];
            }
            if (same) return {length, end};
        }
    }
    return {};
}

TEST_CASE("ngram: what followed the longest match comes next") {
    // 2 3 stands before twice; 1 2 3 once.
    CHECK(proposed({1, 2, 3, 7, 8, 5, 2, 3, 9, 1, 2, 3}, 2, 2, 4) == Tokens{7, 8});
    // Of equal ones, the latest.
    CHECK(proposed({2, 3, 7, 0, 2, 3, 9, 4, 2, 3}, 2, 2, 4) == Tokens{9, 4});
    // A longer one than may be looked up counts no more.
    CHECK(proposed({1, 2, 3, 7, 5, 2, 3, 9, 1, 2, 3}, 1, 2, 2) == Tokens{9});
}

TEST_CASE("ngram: nothing where too few tokens are alike") {
    CHECK(proposed({1, 2, 3, 4, 5, 9, 3}, 4, 2, 4).empty());
    CHECK(proposed({1, 2, 3, 4, 5, 9, 3}, 2, 1, 4) == Tokens{4, 5});
    CHECK(proposed({1}, 4, 1, 4).empty());
    CHECK(proposed({}, 4, 1, 4).empty());
    CHECK(proposed({4, 4}, 3, 2, 4).empty());
    CHECK(proposed({4, 4}, 3, 1, 4) == Tokens{4, 4, 4});
}

TEST_CASE("ngram: a repetition is continued beyond the end of the text") {
    CHECK(proposed({9, 1, 2, 3, 1, 2, 3}, 7, 2, 3) == Tokens{1, 2, 3, 1, 2, 3, 1});
}

TEST_CASE("ngram: the search finds what comparing everything finds") {
    std::mt19937 random(3);
    for (int round = 0; round < 500; ++round) {
        Tokens text(1 + random() % 40);
        for (int32_t& token : text) token = static_cast<int32_t>(random() % 3);
        const auto least = static_cast<int32_t>(1 + random() % 3);
        const auto most = static_cast<int32_t>(least + static_cast<int32_t>(random() % 4));
        const EarlierMatch found = find_earlier(text, least, most);
        const EarlierMatch expected = find_slowly(text, least, most);
        CAPTURE(round);
        CHECK(found.length == expected.length);
        CHECK(found.end == expected.end);
    }
}

}  // namespace
}  // namespace nvllm
