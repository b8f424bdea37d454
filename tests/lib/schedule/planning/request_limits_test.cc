// Limits of requests by context and cache.
#include "lib/schedule/planning/request_limits.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

TEST_CASE("the longest length follows from max_tokens and the context") {
    const SchedulerConfig config = small_config();
    Request request = endless(1, 20, 30);
    CHECK(longest_length(config, 20, request) == 50);
    request.sampling.max_tokens = 1000;
    CHECK(longest_length(config, 20, request) == 128);
    request.sampling.max_tokens.reset();
    CHECK(longest_length(config, 20, request) == 128);
    request.pooling.emplace();
    CHECK(longest_length(config, 20, request) == 20);
}

TEST_CASE("the last token of a text is not computed, that of a pooled prompt is") {
    SchedulerConfig config = small_config();
    config.original_context = 20;
    Request request = endless(1, 10, 11);
    CHECK(rope_choice(config, 21, request) == 1);
    CHECK(rope_choice(config, 22, request) == 0);
    request.pooling.emplace();
    CHECK(rope_choice(config, 21, request) == 0);
    config.original_context = 0;
    CHECK(rope_choice(config, 5, request) == 0);
}

TEST_CASE("all beams must fit at once") {
    const Parts parts;
    Request request = endless(1, 8, 9);
    CHECK(max_blocks(small_config(), parts.cache, 0, 17, request) == 4);
    request.sampling.use_beam_search = true;
    request.sampling.best_of = 3;
    CHECK(max_blocks(small_config(), parts.cache, 0, 17, request) == 12);
    request.sampling.best_of = 9;
    const auto fault = why_never(small_config(), parts.cache, request);
    REQUIRE(fault.has_value());
    CHECK(fault->message.find("--max-num-seqs") != std::string::npos);
}

}  // namespace
}  // namespace nvllm
