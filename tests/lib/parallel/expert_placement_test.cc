// Experts by load: every one somewhere, the hottest on several ranks, none twice on one.
#include "lib/parallel/expert_placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

using namespace nvllm;

namespace {

void check_whole(const ExpertSlots& slots, int32_t experts, int32_t ranks) {
    const std::set<int32_t> all(slots.begin(), slots.end());
    CHECK(std::ssize(all) == experts);
    CHECK(*all.begin() == 0);
    CHECK(*all.rbegin() == experts - 1);
    const size_t of_rank = slots.size() / static_cast<size_t>(ranks);
    for (size_t first = 0; first < slots.size(); first += of_rank) {
        const std::span<const int32_t> own = std::span(slots).subspan(first, of_rank);
        CHECK(std::ranges::is_sorted(own, std::ranges::less_equal()));
        CHECK(std::ranges::adjacent_find(own) == own.end());
    }
}

}  // namespace

TEST_CASE("the hottest expert is on several ranks") {
    const std::vector<int64_t> tokens = {10, 90, 10, 10, 10, 10};
    const ExpertSlots slots = balanced_experts(tokens, 2, 8);
    check_whole(slots, 6, 2);
    CHECK(std::ranges::count(slots, 1) == 2);
    CHECK(imbalance(slots, tokens, 2) == doctest::Approx(1.0));
    CHECK(imbalance({0, 1, 2, 3, 4, 5}, tokens, 2) == doctest::Approx(110.0 / 70.0));
}

TEST_CASE("without further slots the heavy are apart") {
    const std::vector<int64_t> tokens = {50, 40, 5, 1};
    const ExpertSlots slots = balanced_experts(tokens, 2, 4);
    CHECK(slots == ExpertSlots{0, 3, 1, 2});
}

TEST_CASE("any load is balanced better than in order, or as well") {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        const int32_t ranks = 1 + static_cast<int32_t>(random() % 6);
        const int32_t experts = ranks * (1 + static_cast<int32_t>(random() % 8));
        std::vector<int64_t> tokens;
        for (int32_t i = 0; i < experts; ++i) {
            tokens.push_back(static_cast<int64_t>(random() % 100) * (random() % 5 == 0 ? 30 : 1));
        }
        const int32_t most = experts * (ranks - 1) / ranks;
        const int32_t further =
            ranks * static_cast<int32_t>(random() % (static_cast<uint32_t>(most) + 1));
        if (experts + further > experts * ranks) continue;
        const ExpertSlots slots = balanced_experts(tokens, ranks, experts + further);
        check_whole(slots, experts, ranks);
        if (further == experts * (ranks - 1)) CHECK(imbalance(slots, tokens, ranks) <= 1.0 + 1e-9);
    }
    const std::vector<int64_t> none(8, 0);
    check_whole(balanced_experts(none, 4, 12), 8, 4);
    CHECK(imbalance({0, 1, 2, 3, 4, 5, 6, 7}, none, 4) == 0.0);
}
