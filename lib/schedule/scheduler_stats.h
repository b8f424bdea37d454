// What the scheduler counts.
#pragma once

#include <array>
#include <cstdint>

#include "lib/schedule/adapter_stats.h"
#include "lib/schedule/speculation/speculation_config.h"

namespace nvllm {

// Drafts that steps verified.
struct SpeculationStats {
    int64_t drafts = 0;           // verifications, of one sequence each
    int64_t draft_tokens = 0;     // tokens in them
    int64_t accepted_tokens = 0;  // of those
    // Of those, the ones that came first, second, ... after a known token.
    std::array<int64_t, kMostDrafts> accepted_per_position = {};
};

// Counts since the start; num_x are of now.
struct SchedulerStats {
    int32_t num_running = 0;
    int32_t num_waiting = 0;  // paused sequences included
    int32_t num_paused = 0;
    int32_t num_swapped = 0;
    int32_t num_awaiting = 0;      // for remote blocks
    int32_t token_budget = 0;      // of the next step
    int64_t steps = 0;             // plans made
    int64_t scheduled_tokens = 0;  // tokens in them, draft tokens included
    int64_t prefill_tokens = 0;    // of those, see BatchPlan::num_prefill_tokens
    int64_t filled_slots = 0;      // sequences in them, of steps * max_num_seqs
    int64_t preemptions = 0;       // because blocks were missing, swaps included
    int64_t swaps_out = 0;         // sequences that were copied to host memory
    int64_t swaps_in = 0;
    int64_t recomputed_tokens = 0;  // computed once more after a preemption
    int64_t pauses = 0;             // because a slot was missing, or for a slow client
    int64_t aged_admissions = 0;    // out of the policy's order, against starvation
    int64_t remote_waits = 0;       // for blocks that a remote source fills
    int64_t remote_tokens = 0;      // received from it
    int64_t remote_expiries = 0;    // waits that reached the deadline
    int64_t worker_resets = 0;
    SpeculationStats speculation;
    AdapterStats adapters;
    // Nothing could be planned though sequences waited and no plan was in flight: our mistake.
    int64_t stalled_steps = 0;
};

}  // namespace nvllm
