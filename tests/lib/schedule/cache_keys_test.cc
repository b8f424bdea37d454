// What keeps requests with equal tokens from sharing blocks: salt, adapter and media.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

struct Extras {
    std::string salt = {};
    std::string adapter = {};
    std::vector<MediaKey> media = {};
};

Request with_extras(RequestId id, const Extras& extras) {
    Request request = make_request(id, counting_tokens(5, 18), 2);
    request.sampling.ignore_eos = true;
    request.cache_salt = extras.salt;
    request.adapter.key = extras.adapter;
    request.media_keys = extras.media;
    return request;
}

// Tokens of the second request that were found in the cache after the first, with equal tokens, was
// answered. Blocks have 4 tokens.
std::optional<int32_t> found(const Extras& first, const Extras& second) {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(with_extras(1, first));
    simulation.run();
    simulation.add(with_extras(2, second));
    simulation.run();
    CHECK(simulation.num_finished == 2);
    CHECK(simulation.all_well());
    return simulation.finished.at(2).num_cached_tokens;
}

TEST_CASE("requests with equal tokens share blocks only under the same salt and adapter") {
    const std::vector<Extras> all = {{},
                                     {.salt = "a"},
                                     {.salt = "b"},
                                     {.adapter = "a"},
                                     {.adapter = "b"},
                                     {.salt = "a", .adapter = "b"},
                                     {.salt = "b", .adapter = "a"},
                                     {.media = {{0, {1, 2}}}},
                                     {.adapter = "a", .media = {{0, {1, 2}}}}};
    for (size_t one = 0; one < all.size(); ++one) {
        for (size_t other = 0; other < all.size(); ++other) {
            CAPTURE(one);
            CAPTURE(other);
            CHECK(found(all[one], all[other]) == (one == other ? 16 : 0));
        }
    }
}

// Of a context of 24 positions a request of 18 prompt tokens with 7 to come computes no more than
// those, as the last token is never computed.
TEST_CASE("sequences of different choices of RoPE share no blocks; the longest length chooses") {
    SchedulerConfig config = small_config();
    const auto choices_and_found = [&](int32_t first, int32_t second) {
        Simulation simulation(config, small_cache(), kEndless);
        std::vector<int32_t> choices;
        for (const int32_t max_tokens : {first, second}) {
            Request request = make_request(choices.size() + 1, counting_tokens(5, 18), max_tokens);
            request.sampling.ignore_eos = true;
            simulation.add(request);
            REQUIRE(simulation.plan());
            choices.push_back(simulation.last_plan.added.at(0).rope_choice);
            simulation.run();
        }
        CHECK(simulation.all_well());
        choices.push_back(simulation.finished.at(2).num_cached_tokens.value());
        return choices;
    };
    CHECK(choices_and_found(7, 8) == std::vector<int32_t>{0, 0, 16});  // a model with one RoPE
    config.original_context = 24;
    CHECK(choices_and_found(7, 2) == std::vector<int32_t>{1, 1, 16});
    CHECK(choices_and_found(7, 8) == std::vector<int32_t>{1, 0, 0});
    CHECK(choices_and_found(8, 7) == std::vector<int32_t>{0, 1, 0});
    CHECK(choices_and_found(8, 30) == std::vector<int32_t>{0, 0, 16});
    config.max_model_len = 25;
    CHECK(choices_and_found(8, 30) == std::vector<int32_t>{1, 1, 16});
}

TEST_CASE(
    "vectors take the RoPE of their prompt's length, and a preempted sequence keeps its own") {
    SchedulerConfig config = small_config();
    config.original_context = 24;
    Simulation simulation(config, small_cache(), kEndless);
    for (const int32_t length : {24, 25}) {
        Request request =
            make_request(static_cast<RequestId>(length), counting_tokens(length * 100, length), 0);
        request.pooling = PoolingParams{};
        simulation.add(request);
        REQUIRE(simulation.plan());
        CHECK(simulation.last_plan.added.at(0).rope_choice == (length == 24 ? 1 : 0));
        simulation.run();
    }
    Request request = endless(1, 10, 14);
    simulation.add(request);
    REQUIRE(simulation.plan());
    CHECK(simulation.last_plan.added.at(0).rope_choice == 1);
    simulation.results.clear();
    simulation.scheduler.reset_worker();
    REQUIRE(simulation.plan());
    CHECK(simulation.last_plan.added.at(0).rope_choice == 1);
}

TEST_CASE("media keep blocks apart from where they stand") {
    const Extras image{.media = {{6, {1, 2}}}};
    CHECK(found(image, image) == 16);
    CHECK(found(image, {}) == 4);
    CHECK(found({}, image) == 4);
    CHECK(found(image, {.media = {{6, {1, 3}}}}) == 4);
    CHECK(found(image, {.media = {{7, {1, 2}}}}) == 4);
    CHECK(found(image, {.media = {{6, {1, 2}}, {13, {1, 2}}}}) == 12);
    CHECK(found({.media = {{6, {1, 2}}, {13, {5, 5}}}}, {.media = {{6, {1, 2}}, {13, {1, 2}}}}) ==
          12);
}

TEST_CASE("continuations of one request share its prompt under its extras") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    Request request = with_extras(1, {.adapter = "poet", .media = {{3, {1, 2}}}});
    request.sampling.n = 3;
    simulation.add(request);
    simulation.run();
    CHECK(simulation.finished.at(1).num_cached_tokens == 0);
    CHECK(simulation.finished.at(2).num_cached_tokens == 16);
    CHECK(simulation.finished.at(3).num_cached_tokens == 16);
    CHECK(simulation.all_well());
}

TEST_CASE("a medium that stands outside the prompt is refused") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    for (const int32_t position : {-1, 18, 1000}) {
        Request request = with_extras(1, {.media = {{position, {1, 2}}}});
        const auto ids = simulation.scheduler.add(request);
        REQUIRE_FALSE(ids.ok());
        CHECK(ids.fault().message.find("position") != std::string::npos);
    }
    CHECK_FALSE(simulation.scheduler.has_work());
}

}  // namespace
}  // namespace nvllm
