// Past answers: found by their last tokens, agreed on by vote, forgotten when memory is full.
#include "lib/schedule/speculation/suffix_proposer.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace nvllm {
namespace {

using Tokens = std::vector<int32_t>;

Tokens next_of(SuffixIndex& index, const Tokens& text, int32_t count, uint64_t salt = 0) {
    return index.find(text, salt, count).next;
}

TEST_CASE("suffix: what followed the longest match in a past text comes next") {
    SuffixIndex index(1024, 2);
    CHECK(next_of(index, {1, 2}, 3).empty());
    index.add(Tokens{1, 2, 3, 4, 5}, 0);
    index.add(Tokens{9, 2, 3, 7, 8}, 0);
    CHECK(next_of(index, {0, 1, 2, 3}, 3) == Tokens{4, 5});
    CHECK(next_of(index, {0, 9, 2, 3}, 1) == Tokens{7});
    CHECK(index.find(Tokens{0, 9, 2, 3}, 0, 1).length == 3);
    // Nothing stands behind the end of a text, and nothing is alike across it.
    CHECK(next_of(index, {4, 5}, 3).empty());
    CHECK(next_of(index, {5, 9}, 3).empty());
    CHECK(next_of(index, {3}, 3).empty());
}

TEST_CASE("suffix: of several matches most decide, then the latest") {
    SuffixIndex index(1024, 2);
    index.add(Tokens{1, 2, 5, 6}, 0);
    index.add(Tokens{1, 2, 5, 7}, 0);
    index.add(Tokens{1, 2, 4, 8}, 0);
    CHECK(next_of(index, {1, 2}, 2) == Tokens{5, 7});
}

TEST_CASE("suffix: where matches agree too little nothing more is proposed") {
    SuffixIndex index(1024, 2);
    for (int32_t i = 0; i < 8; ++i) index.add(Tokens{1, 2, 3, 10 + i}, 0);
    CHECK(next_of(index, {1, 2}, 4) == Tokens{3});
}

TEST_CASE("suffix: texts with another salt are not known") {
    SuffixIndex index(1024, 2);
    index.add(Tokens{1, 2, 3}, 7);
    CHECK(next_of(index, {1, 2}, 1, 8).empty());
    CHECK(next_of(index, {1, 2}, 1, 7) == Tokens{3});
}

TEST_CASE("suffix: the oldest texts are forgotten, and any text may come") {
    SuffixIndex index(1024, 2);
    index.add(Tokens{1, 2, 3}, 0);
    Tokens filling(900, 50);
    index.add(filling, 0);
    CHECK(next_of(index, {1, 2}, 1) == Tokens{3});
    index.add(filling, 0);
    CHECK(next_of(index, {1, 2}, 1).empty());
    Tokens long_text;
    for (int32_t i = 0; i < 5000; ++i) long_text.push_back(100 + i);
    index.add(long_text, 0);
    CHECK(next_of(index, {5000, 5001}, 2) == Tokens{5002, 5003});
    CHECK(next_of(index, {200, 201}, 2).empty());
    index.add(Tokens{}, 0);
    index.add(Tokens{1}, 0);
    CHECK(next_of(index, {}, 2).empty());
}

TEST_CASE("suffix: whatever is proposed has stood there") {
    std::mt19937 random(5);
    SuffixIndex index(1024, 2);
    for (int round = 0; round < 2000; ++round) {
        Tokens text(random() % 60);
        for (int32_t& token : text) token = static_cast<int32_t>(random() % 4);
        const SuffixIndex::Found found = index.find(text, 0, 4);
        REQUIRE(found.next.size() <= 4);
        for (const int32_t token : found.next) REQUIRE((token >= 0 && token < 4));
        if (!found.next.empty()) REQUIRE(found.length >= 2);
        index.add(text, 0);
    }
}

TEST_CASE("suffix: the proposer takes the longer of the text's own match and a past one") {
    SpeculationConfig config;
    config.num_speculative_tokens = 2;
    SuffixProposer proposer(config);
    Sequence past;
    past.token_ids = {1, 2, 3, 4, 5, 6};
    past.num_prompt_tokens = 2;
    proposer.learn(past, "");
    Sequence sequence;
    sequence.token_ids = {9, 2, 3, 8, 8, 2, 3};
    CHECK(proposer.propose(sequence, "").token_ids == Tokens{8, 8});
    sequence.token_ids = {9, 2, 3, 8, 8, 1, 2, 3};
    CHECK(proposer.propose(sequence, "").token_ids == Tokens{4, 5});
    CHECK(proposer.propose(sequence, "other").token_ids == Tokens{8, 8});
}

}  // namespace
}  // namespace nvllm
