// The end of a sequence by ids and lengths.
#include "lib/schedule/stop_check.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

TEST_CASE(
    "an end token, a stop id, max_tokens and the context end a sequence; min_tokens hold back") {
    Request request = endless(1, 4, 50);
    request.sampling.ignore_eos = false;
    request.sampling.stop_token_ids = {77};
    Simulation simulation(small_config(), small_cache());
    const auto decision_on = [&](const Request& asked, std::vector<int32_t> sampled) {
        Simulation one(small_config(), small_cache());
        REQUIRE(!one.add(asked).empty());
        one.plan();
        one.results[0].sequences[0].token_ids = std::move(sampled);
        return one.scheduler.check_stop(one.results[0])[0];
    };
    CHECK_FALSE(decision_on(request, {5}).finish.has_value());
    CHECK(decision_on(request, {5}).num_accepted == 1);
    CHECK(decision_on(request, {kEndToken}).finish == FinishReason::stop);
    CHECK(decision_on(request, {kEndToken}).stop_token_id == kEndToken);
    CHECK(decision_on(request, {77}).stop_token_id == 77);
    CHECK(decision_on(request, {5, 77, 6}).num_accepted == 2);
    request.sampling.min_tokens = 2;
    CHECK_FALSE(decision_on(request, {kEndToken}).finish.has_value());
    CHECK(decision_on(request, {kEndToken, 77}).finish == FinishReason::stop);
    request.sampling.ignore_eos = true;
    CHECK_FALSE(decision_on(request, {5, kEndToken}).finish.has_value());
    request.sampling.max_tokens = 2;
    CHECK(decision_on(request, {5, 6}).finish == FinishReason::length);
    CHECK(decision_on(request, {5, 77}).finish == FinishReason::stop);
    Request long_one = endless(1, 126, 50);
    long_one.prompt_token_ids.resize(126);
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 128;
    Simulation wide(config, small_cache());
    REQUIRE(!wide.add(long_one).empty());
    wide.plan();
    wide.results[0].sequences[0].token_ids = {5};
    CHECK_FALSE(wide.scheduler.check_stop(wide.results[0])[0].finish.has_value());
    wide.results[0].sequences[0].token_ids = {5, 6};
    CHECK(wide.scheduler.check_stop(wide.results[0])[0].finish == FinishReason::length);
}

}  // namespace
}  // namespace nvllm
