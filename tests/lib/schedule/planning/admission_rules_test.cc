// Which sequences are ready for admission.
#include "lib/schedule/planning/admission_rules.h"

#include <doctest/doctest.h>

#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

TEST_CASE("a sequence is ready unless a lease, a client or the prompt's sequence keeps it") {
    Parts parts;
    ScheduledSequence& scheduled = parts.add(endless(1, 14, 4));
    CHECK(is_ready(scheduled, parts.context));
    scheduled.lease_end_s = 5.0;
    CHECK_FALSE(is_ready(scheduled, parts.context));
    scheduled.lease_end_s.reset();
    parts.backpressure.pause(1);
    CHECK_FALSE(is_ready(scheduled, parts.context));
    parts.backpressure.resume(1);
    scheduled.request->prompt_sequence = 77;
    CHECK_FALSE(is_ready(scheduled, parts.context));
    scheduled.request->prompt_computed = true;
    CHECK(is_ready(scheduled, parts.context));
}

TEST_CASE("prompts with logprobs or pooled positions are computed") {
    Parts parts;
    ScheduledSequence& scheduled = parts.add(endless(1, 14, 4));
    CHECK(may_skip_prompt(scheduled));
    scheduled.request->request.sampling.prompt_logprobs = 2;
    CHECK_FALSE(may_skip_prompt(scheduled));
    scheduled.request->prompt_computed = true;
    CHECK(may_skip_prompt(scheduled));
    scheduled.request->request.pooling.emplace().kind = PoolingKind::mean;
    CHECK(reads_early_positions(scheduled));
    CHECK_FALSE(may_skip_prompt(scheduled));
}

TEST_CASE("running sequences that need more blocks are counted") {
    Parts parts;
    parts.add_running(endless(1, 8, 1));  // 2 blocks for 8 positions
    ScheduledSequence& growing = parts.add_running(endless(2, 8, 9));
    CHECK(may_grow(growing, parts.cache));
    CHECK(num_growing(parts.context, parts.running, parts.waiting) == 1);
    CHECK(slots_to_take(growing) == 1);
}

}  // namespace
}  // namespace nvllm
