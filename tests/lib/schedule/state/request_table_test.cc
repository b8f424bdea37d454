// Requests and sequences that the scheduler knows.
#include "lib/schedule/state/request_table.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

TEST_CASE("a request is known once, and its finished sequences as long as a plan names them") {
    Parts parts;
    ScheduledSequence& one = parts.add(endless(1, 4, 4));
    CHECK(parts.requests.add_request(endless(1, 4, 4)) == nullptr);
    CHECK(parts.requests.find(1) == &one);
    CHECK(parts.requests.find(2) == nullptr);
    CHECK(parts.requests.find_request(1) == one.request);
    CHECK(one.request->request.prompt_token_ids.empty());
    one.num_plans = 1;
    parts.finisher.finish(one, FinishReason::cancelled);
    CHECK(parts.requests.find_request(1) == nullptr);
    parts.requests.forget_retired();
    CHECK(parts.requests.find(1) == &one);
    one.num_plans = 0;
    parts.requests.forget_retired();
    CHECK(parts.requests.find(1) == nullptr);
}

TEST_CASE("the first active sequence computes the prompt") {
    Parts parts;
    Request request = endless(1, 14, 4);
    request.sampling.n = 2;
    ScheduledSequence& first = parts.add(request);
    ScheduledRequest& shared = *first.request;
    ScheduledSequence& second = parts.requests.add_sequence(std::make_unique<ScheduledSequence>(
        ScheduledSequence{.sequence = Sequence::waiting(request, parts.requests.next_id(), 1),
                          .cache = SequenceBlocks(parts.cache, CacheKeyExtras{}, 2),
                          .request = first.request,
                          .candidates = {},
                          .unsent_tokens = {},
                          .lease_end_s = {},
                          .drafts = {}}));
    CHECK(shared.prompt_sequence == first.sequence.id);
    CHECK(shared.end() == 3);
    shared.prompt_computed = true;
    parts.finisher.finish(first, FinishReason::cancelled);
    CHECK(shared.prompt_sequence == second.sequence.id);
    parts.requests.forget_computed_prompts();
    CHECK_FALSE(shared.prompt_computed);
}

}  // namespace
}  // namespace nvllm
