// The radix view: runs, forks, matches within blocks, and random prompts against a plain search.
#include "lib/cache/radix_view.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/lib/cache/cache_test_sequences.h"

namespace nvllm {
namespace {

std::vector<int32_t> joined(std::vector<int32_t> one, const std::vector<int32_t>& other) {
    one.insert(one.end(), other.begin(), other.end());
    return one;
}

TEST_CASE("blocks that follow one another are one run until a fork") {
    CacheManager cache(one_group(16));
    CHECK(radix_view(cache).runs.empty());
    const std::vector<int32_t> common = tokens_from(0, 8);
    SequenceBlocks one(cache, "");
    SequenceBlocks two(cache, "");
    run_through(cache, one, joined(common, tokens_from(100, 8)));
    run_through(cache, two, joined(common, tokens_from(200, 4)));
    const RadixView view = radix_view(cache);
    REQUIRE(view.runs.size() == 3);
    REQUIRE(view.roots == std::vector<int32_t>{0});
    const RadixRun& root = view.runs[0];
    CHECK(root.tokens == common);
    CHECK(root.num_contents == 2);
    CHECK(root.num_hits == 1);
    CHECK(root.references == 4);
    CHECK(root.blocks[0].size() == 2);
    CHECK(root.children == std::vector<int32_t>{1, 2});
    CHECK(view.runs[1].tokens == tokens_from(100, 8));
    CHECK(view.runs[1].first_depth == 2);
    CHECK(view.runs[2].num_hits == 0);
    CHECK(view.runs[2].parent == 0);
}

TEST_CASE("matches end anywhere, and only under the same extras") {
    CacheManager cache(one_group(16));
    SequenceBlocks salted(cache, "salt");
    run_through(cache, salted, tokens_from(0, 12));
    const RadixView view = radix_view(cache);
    const std::string extra = view.runs[0].extra;
    CHECK_FALSE(extra.empty());
    CHECK(view.longest_match(tokens_from(0, 30), extra) == 12);
    CHECK(view.longest_match(tokens_from(0, 7), extra) == 7);
    CHECK(view.longest_match(joined(tokens_from(0, 6), {99, 7}), extra) == 6);
    CHECK(view.longest_match(tokens_from(0, 12)) == 0);
    CHECK(view.longest_match({}, extra) == 0);
}

TEST_CASE("random prompts match as far as any of those that came before") {
    std::mt19937 random(29);
    CacheManager cache(one_group(4096));
    std::vector<std::vector<int32_t>> prompts;
    bool same = true;
    for (int i = 0; i < 150 && same; ++i) {
        std::vector<int32_t> prompt(1 + random() % 40);
        for (int32_t& token : prompt) token = random() % 5 == 0;
        int32_t longest = 0;
        for (const auto& known : prompts) {
            // Only full blocks were inserted.
            const auto full = std::span(known).first(known.size() / 4 * 4);
            const auto end = std::ranges::mismatch(full, prompt);
            longest = std::max(longest, static_cast<int32_t>(end.in1 - full.begin()));
        }
        same = radix_view(cache).longest_match(prompt) == longest;
        SequenceBlocks sequence(cache, "");
        run_through(cache, sequence, prompt);
        prompts.push_back(prompt);
    }
    CHECK(same);
}

}  // namespace
}  // namespace nvllm
