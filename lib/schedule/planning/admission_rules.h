// Which waiting sequences may be admitted, and how many blocks running ones will still need.
#pragma once

#include <cstdint>

#include "lib/cache/cache_manager.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduled_sequence.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/waiting_queue.h"

namespace nvllm {

// Whether a waiting sequence can be admitted when slots and blocks are free: a remote source does
// not fill its blocks, no client pauses it, its adapter is there, and no other sequence of its
// request computes the prompt for it.
bool is_ready(const ScheduledSequence& scheduled, const SchedulingContext& context);

// Whether the worker must compute all positions, because the pooling reads their hidden states.
bool reads_early_positions(const ScheduledSequence& scheduled);

// Whether tokens of the prompt need not be computed if their KV is cached. Not while prompt
// logprobs are to come, and not if reads_early_positions().
bool may_skip_prompt(const ScheduledSequence& scheduled);

// Slots that the admission takes: a group of beams gets all its slots with its first one, because
// beams that waited for each other's slots would wait forever.
int32_t slots_to_take(const ScheduledSequence& scheduled);

// Whether the sequence can become longer than its blocks.
bool may_grow(const ScheduledSequence& scheduled, const CacheManager& cache);

// Sequences with blocks that may grow: admission leaves a block for each, else it would cause a
// preemption at once.
int32_t num_growing(const SchedulingContext& context, const RunningSet& running,
                    const WaitingQueue& waiting);

}  // namespace nvllm
