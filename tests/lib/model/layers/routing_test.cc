// How experts are chosen and weighted, by examples that can be followed by hand.
#include "lib/model/layers/routing.h"

#include <doctest/doctest.h>

#include <cmath>

namespace nvllm {
namespace {

struct Choice {
    std::vector<int32_t> experts;
    std::vector<float> weights;
};

Choice choose(const Routing& routing, std::vector<float> logits) {
    const auto count = static_cast<size_t>(routing.experts_per_token);
    Choice choice{std::vector<int32_t>(count), std::vector<float>(count)};
    choose_experts(routing, logits, choice.experts.data(), choice.weights.data());
    return choice;
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

TEST_CASE("routing: softmax over all experts, of equals the first") {
    const Choice choice = choose({.experts_per_token = 2}, {0.0f, 1.0f, 1.0f, -1.0f});
    CHECK(choice.experts == std::vector<int32_t>{1, 2});
    const float sum = 1.0f + 2.0f * std::exp(1.0f) + std::exp(-1.0f);
    CHECK(choice.weights[0] == doctest::Approx(std::exp(1.0f) / sum));
    CHECK(Routing{.experts_per_token = 2}.is_plain());
}

TEST_CASE("routing: softmax over the chosen alone") {
    const Choice choice = choose({.experts_per_token = 2, .scores = RouterScores::chosen_softmax},
                                 {0.5f, -3.0f, 2.0f});
    CHECK(choice.experts == std::vector<int32_t>{2, 0});
    CHECK(choice.weights[0] == doctest::Approx(sigmoid(1.5f)));
    CHECK(choice.weights[0] + choice.weights[1] == doctest::Approx(1.0f));
}

TEST_CASE("routing: sigmoid of the chosen, by logits that are apart where sigmoids are not") {
    const Choice choice = choose({.experts_per_token = 1, .scores = RouterScores::chosen_sigmoid},
                                 {40.0f, -3.0f, 41.0f});
    CHECK(choice.experts == std::vector<int32_t>{2});
    CHECK(choice.weights[0] == doctest::Approx(1.0f));
}

TEST_CASE("routing: SparseMixer leaves out what differs by more than the noise") {
    const Routing routing = {
        .experts_per_token = 2, .scores = RouterScores::sparse_mixer, .mixer_noise = 0.1f};
    // 2.0 and 1.7 differ by 0.15 of 2.0; 1.7 and 1.5 by 0.12 of 1.7, which the best is no part of.
    const Choice close = choose(routing, {1.5f, 2.0f, 1.7f});
    CHECK(close.experts == std::vector<int32_t>{1, 2});
    CHECK(close.weights[0] == doctest::Approx(sigmoid(0.3f)));
    CHECK(close.weights[1] == doctest::Approx(sigmoid(0.2f)));
    const Choice apart = choose(routing, {1.0f, 2.0f, -3.0f});
    CHECK(apart.experts == std::vector<int32_t>{1, 0});
    CHECK(apart.weights[0] == 1.0f);
    CHECK(apart.weights[1] == 1.0f);
    // A large negative logit makes its own difference small.
    const Choice negative = choose(routing, {-10.0f, -9.0f, -20.0f});
    CHECK(negative.experts == std::vector<int32_t>{1, 0});
    CHECK(negative.weights[0] == doctest::Approx(sigmoid(1.0f)));
}

TEST_CASE("routing: a bias chooses and does not weigh") {
    const Routing routing = {.experts_per_token = 2,
                             .scores = RouterScores::sigmoid,
                             .normalize_weights = true,
                             .bias = {0.0f, 5.0f, 0.0f},
                             .weight_scale = 3.0f};
    const Choice choice = choose(routing, {1.0f, -1.0f, 0.5f});
    CHECK(choice.experts == std::vector<int32_t>{1, 0});
    const float sum = sigmoid(-1.0f) + sigmoid(1.0f);
    CHECK(choice.weights[0] == doctest::Approx(3.0f * sigmoid(-1.0f) / sum));
    CHECK(choice.weights[1] == doctest::Approx(3.0f * sigmoid(1.0f) / sum));
    CHECK_FALSE(routing.is_plain());
}

// The best expert is in the group whose two best together are worst.
TEST_CASE("routing: experts of the best groups only") {
    const Routing routing = {.experts_per_token = 3,
                             .scores = RouterScores::sigmoid,
                             .num_groups = 3,
                             .groups_per_token = 2};
    const Choice choice = choose(routing, {4.0f, -9.0f, 1.0f, 2.0f, 0.9f, 1.5f});
    CHECK(choice.experts == std::vector<int32_t>{3, 5, 2});
    CHECK(choice.weights[2] == doctest::Approx(sigmoid(1.0f)));
}

// The same groups, of which the one with the best expert is now the best.
TEST_CASE("routing: groups by their best expert") {
    const Routing routing = {.experts_per_token = 3,
                             .scores = RouterScores::sigmoid,
                             .num_groups = 3,
                             .groups_per_token = 2,
                             .groups_by_best = true};
    const Choice choice = choose(routing, {4.0f, -9.0f, 1.0f, 2.0f, 0.9f, 1.5f});
    CHECK(choice.experts == std::vector<int32_t>{0, 3, 2});
}

}  // namespace
}  // namespace nvllm
