// Proposals of a given acceptance: right as often as asked, the same each time, and none unasked.
#include "lib/schedule/speculation/synthetic_proposer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace nvllm {
namespace {

using Tokens = std::vector<int32_t>;

Sequence sequence_of(const Tokens& prompt, const Tokens& answer) {
    Sequence sequence;
    sequence.token_ids = prompt;
    sequence.token_ids.insert(sequence.token_ids.end(), answer.begin(), answer.end());
    sequence.num_prompt_tokens = static_cast<int32_t>(prompt.size());
    return sequence;
}

SpeculationConfig with(double acceptance, int32_t num_drafts) {
    return {.method = "synthetic",
            .num_speculative_tokens = num_drafts,
            .synthetic_acceptance = acceptance};
}

Tokens random_tokens(size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    Tokens tokens(count);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 1000);
    return tokens;
}

// How many of the proposals for each position of the answer alone are right.
int num_right(SyntheticProposer& proposer, const Tokens& prompt, const Tokens& answer) {
    int count = 0;
    for (size_t length = 0; length < answer.size(); ++length) {
        const Tokens known(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(length));
        const Tokens drafts = proposer.propose(sequence_of(prompt, known), "").token_ids;
        REQUIRE(!drafts.empty());
        CHECK(drafts[0] >= 0);
        count += drafts[0] == answer[length] ? 1 : 0;
    }
    return count;
}

TEST_CASE("synthetic: proposals are right as often as asked") {
    const Tokens prompt = {1, 2, 3};
    const Tokens answer = random_tokens(4000, 7);
    int before = 0;
    for (const double acceptance : {0.0, 0.3, 0.8, 1.0}) {
        SyntheticProposer proposer(with(acceptance, 1));
        proposer.learn(sequence_of(prompt, answer), "");
        const int right = num_right(proposer, prompt, answer);
        CAPTURE(acceptance);
        // Five standard deviations of 4000 draws at most.
        CHECK(std::abs(right - 4000 * acceptance) < 160);
        CHECK(right >= before);
        before = right;
        if (acceptance == 0.0) CHECK(right == 0);
        if (acceptance == 1.0) CHECK(right == 4000);
    }
}

TEST_CASE("synthetic: a position is right or wrong whenever it is proposed") {
    const Tokens answer = random_tokens(40, 8);
    SyntheticProposer proposer(with(0.5, 8));
    proposer.learn(sequence_of({5, 6}, answer), "one");
    const Tokens all = proposer.propose(sequence_of({5, 6}, {}), "another").token_ids;
    REQUIRE(all.size() == 8);
    const Tokens known(answer.begin(), answer.begin() + 3);
    const Tokens rest = proposer.propose(sequence_of({5, 6}, known), "").token_ids;
    CHECK(Tokens(all.begin() + 3, all.end()) == Tokens(rest.begin(), rest.begin() + 5));
    // Another prompt with the same answer has other positions.
    proposer.learn(sequence_of({5, 7}, answer), "");
    CHECK(proposer.propose(sequence_of({5, 7}, {}), "").token_ids != all);
}

TEST_CASE("synthetic: nothing for prompts and answers that were not seen, nor behind the end") {
    SyntheticProposer proposer(with(1.0, 4));
    CHECK(proposer.propose(sequence_of({1, 2}, {}), "").empty());
    proposer.learn(sequence_of({1, 2}, {7, 8, 9}), "");
    CHECK(proposer.propose(sequence_of({1, 2}, {7}), "").token_ids == Tokens{8, 9});
    CHECK(proposer.propose(sequence_of({1, 2}, {6}), "").empty());
    CHECK(proposer.propose(sequence_of({1, 2}, {7, 8, 9}), "").empty());
    CHECK(proposer.propose(sequence_of({1, 2}, {7, 8, 9, 4}), "").empty());
    CHECK(proposer.propose(sequence_of({1, 2, 7}, {8}), "").empty());
    // A shorter answer does not replace a longer one; an equally long one does.
    proposer.learn(sequence_of({1, 2}, {4}), "");
    CHECK(proposer.propose(sequence_of({1, 2}, {7}), "").token_ids == Tokens{8, 9});
    proposer.learn(sequence_of({1, 2}, {4, 5, 6}), "");
    CHECK(proposer.propose(sequence_of({1, 2}, {}), "").token_ids == Tokens{4, 5, 6});
}

}  // namespace
}  // namespace nvllm
