// Admission: refusals, cached prefixes, several sequences of a request, and filled slots.
#include "lib/schedule/planning/admission.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

TEST_CASE("what can never run is refused with the numbers and the flag") {
    Scheduler* scheduler = nullptr;
    const auto refusal = [&](const Request& request) {
        const auto answer = scheduler->add(request);
        return answer.ok() ? std::string() : answer.fault().message;
    };
    const auto names = [](const std::string& message, const std::vector<std::string>& words) {
        return std::ranges::all_of(words, [&](const std::string& word) {
            return message.find(word) != std::string::npos;
        });
    };
    CacheManager cache(small_cache(8));
    Scheduler small(small_config(), cache);
    scheduler = &small;
    CHECK(names(refusal(endless(1, 0, 5)), {"prompt is empty"}));
    CHECK(names(refusal(endless(1, 128, 5)), {"128 tokens", "--max-model-len"}));
    CHECK(names(refusal(endless(1, 20, 14)),
                {"20 prompt", "14 generated", "9 cache blocks", "there are 8"}));
    CHECK(refusal(endless(1, 20, 13)).empty());
    CHECK(names(refusal(endless(1, 20, 13)), {"request 1", "under way"}));
    CHECK_FALSE(small.has_work() == false);
}

TEST_CASE("a sliding group needs blocks for its window and a step, however long the request") {
    SchedulerConfig config = small_config();
    config.chunk_size = 8;
    // 6 - 1 + 8 positions in a row touch 4 blocks of 4 tokens.
    for (const int32_t num_blocks : {3, 4}) {
        CacheConfig blocks = small_cache();
        blocks.groups.push_back({num_blocks, 6});
        Simulation simulation(config, blocks, kEndless);
        CHECK(simulation.add(endless(1, 100, 20)).empty() == (num_blocks == 3));
        simulation.run();
        CHECK(simulation.all_well());
    }
}

TEST_CASE("a repeated prefix of 512 tokens is found to the token") {
    SchedulerConfig config;
    config.max_model_len = 1024;
    const CacheConfig blocks{.block_size = 16, .groups = {{200, 0}}, .hash_key = HashKey{1, 2}};
    Simulation simulation(config, blocks, kEndless);
    const auto ask = [&](RequestId id, int32_t num_prefix, int32_t num_own) {
        std::vector<int32_t> prompt = counting_tokens(0, num_prefix);
        for (int32_t i = 0; i < num_own; ++i)
            prompt.push_back(static_cast<int32_t>(100000 * id) + i);
        const SequenceId sequence = simulation.add(make_request(id, prompt, 4)).at(0);
        simulation.run();
        return *simulation.finished.at(sequence).num_cached_tokens;
    };
    CHECK(ask(1, 512, 9) == 0);
    CHECK(ask(2, 512, 9) == 512);
    CHECK(ask(3, 512, 1) == 512);
    CHECK(ask(4, 512, 0) == 496);  // the last token has to be computed
    CHECK(ask(5, 511, 30) == 496);
    CHECK(ask(6, 500, 30) == 496);
    CHECK(simulation.cache.stats().hit_tokens == 512 + 512 + 496 + 496 + 496);
    CHECK(simulation.worker.computed_positions == 521 + 9 + 1 + 16 + 45 + 34 + 6 * 3);
    CHECK(simulation.all_well());
}

TEST_CASE("the other sequences of a request wait for its prompt and find it in the cache") {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 8;
    Simulation simulation(config, small_cache(), kEndless);
    Request request = endless(1, 14, 5);
    request.sampling.n = 4;
    CHECK(simulation.add(request) == std::vector<SequenceId>{1, 2, 3, 4});
    simulation.add(endless(2, 3, 3));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 0, 8}});
    simulation.step();
    // A later request does not wait for sequences that are not ready.
    CHECK(entries(simulation) == Rows{{1, 8, 6}, {5, 0, 2}});
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 14, 1}, {5, 2, 1}, {2, 12, 2}, {3, 12, 2}, {4, 12, 2}});
    CHECK(simulation.last_plan.added[0].index == 1);
    simulation.run();
    for (const SequenceId id : {2, 3, 4}) CHECK(simulation.finished.at(id).num_cached_tokens == 12);
    CHECK(simulation.finished.at(1).token_ids != simulation.finished.at(2).token_ids);
    CHECK(simulation.all_well());
}

TEST_CASE("sequences do not wait for a prompt that no other sequence computes") {
    Request request = endless(1, 14, 5);
    request.sampling.n = 3;
    SUBCASE("prefix caching is off") {
        CacheConfig cache = small_cache();
        cache.enable_prefix_caching = false;
        SchedulerConfig config = small_config();
        config.max_num_batched_tokens = 64;
        Simulation simulation(config, cache, kEndless);
        simulation.add(request);
        simulation.step();
        CHECK(simulation.last_plan.entries.size() == 3);
        simulation.run();
        CHECK(simulation.num_finished == 3);
        CHECK(simulation.all_well());
    }
    SUBCASE("the first one is cancelled") {
        SchedulerConfig config = small_config();
        config.max_num_batched_tokens = 8;
        Simulation simulation(config, small_cache(), kEndless);
        simulation.add(request);
        simulation.step();
        simulation.cancel_sequence(1);
        simulation.step();
        CHECK(entries(simulation) == Rows{{2, 8, 6}});
        simulation.run();
        CHECK(simulation.num_finished == 2);
        CHECK(simulation.all_well());
    }
}

TEST_CASE(
    "over 95 % of the slots are filled while work waits, and a freed one is filled at the next "
    "step") {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 256;
    Simulation simulation(config, small_cache(400), kEndless);
    for (RequestId id = 1; id <= 64; ++id) {
        simulation.add(endless(id, 3 + static_cast<int32_t>(id * 7 % 40),
                               2 + static_cast<int32_t>(id * 13 % 50)));
    }
    int64_t steps = 0;
    int64_t filled = 0;
    int64_t empty_after_finish = 0;
    bool freed = false;
    while (simulation.scheduler.has_work()) {
        REQUIRE(simulation.plan());
        const int64_t slots = static_cast<int64_t>(simulation.last_plan.entries.size());
        if (simulation.scheduler.stats().num_waiting > 0) {
            ++steps;
            filled += slots;
            if (freed) empty_after_finish += slots < config.max_num_seqs;
        }
        freed = !simulation.commit().empty();
    }
    MESSAGE("slots filled while work waits: ", filled, " of ", steps * config.max_num_seqs);
    CHECK(filled * 100 > steps * config.max_num_seqs * 95);
    CHECK(empty_after_finish == 0);
    CHECK(simulation.num_finished == 64);
    CHECK(simulation.scheduler.stats().preemptions == 0);
    CHECK(simulation.all_well());
}

}  // namespace
}  // namespace nvllm
