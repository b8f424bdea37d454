// A sequence as the scheduler keeps it: with its share of the cache, its request, and what is to
// become of it.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/cache/cache_manager.h"
#include "lib/request/request.h"
#include "lib/request/sequence.h"

namespace nvllm {

// What the continuations of a request have in common.
struct ScheduledRequest {
    Request request;  // without the prompt, which each sequence has
    SequenceId first = 0;
    int32_t num_living = 0;  // continuations that have not finished
    // The continuation that computes the prompt; the others wait for it, to find the prompt in the
    // cache.
    SequenceId leader = 0;
    bool prompt_computed = false;
};

// What happens to a sequence as soon as nothing of it is in flight.
enum class Departure : uint8_t { none, preemption, pause };

struct ScheduledSequence {
    Sequence sequence;
    SequenceCache cache;
    std::shared_ptr<ScheduledRequest> request;
    int32_t num_plans = 0;   // uncommitted plans that name it
    bool cancelled = false;  // finishes with the next commit
    Departure departure = Departure::none;
    int32_t num_computed_before = 0;  // when it was last preempted, to be computed again
};

}  // namespace nvllm
