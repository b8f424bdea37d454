// A sequence as the scheduler keeps it: with its share of the cache, its request, and what is to
// become of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/cache/cache_manager.h"
#include "lib/request/beam_search.h"
#include "lib/request/request.h"
#include "lib/request/sequence.h"

namespace nvllm {

struct ScheduledSequence;

// The beams of a request under search.
struct BeamGroup {
    BeamSearch search;
    std::vector<ScheduledSequence*> beams;  // best first; one until the prompt is computed
    int32_t num_candidates = 0;             // that the search wants of each beam
    bool has_slots = false;  // for all its beams, from when the first comes in until the end
};

// What the continuations of a request have in common.
struct ScheduledRequest {
    Request request;  // without the prompt, which each sequence has
    SequenceId first = 0;
    int32_t num_active = 0;  // continuations that have not finished
    int32_t rope_choice =
        0;  // as AddedSequence has it: of all of them, also where blocks are shared
    // The continuation that computes the prompt; the others wait for it, to find the prompt in the
    // cache.
    SequenceId leader = 0;
    bool prompt_computed = false;
    bool is_held = false;              // nobody takes what it makes: nothing is planned of it
    std::unique_ptr<BeamGroup> beams;  // null: no beam search
};

// What happens to a sequence as soon as nothing of it is in flight.
enum class DisconnectReason : uint8_t { none, preemption, pause };

struct ScheduledSequence {
    Sequence sequence;
    SequenceBlocks cache;
    std::shared_ptr<ScheduledRequest> request;
    int32_t num_plans = 0;   // uncommitted plans that name it
    bool cancelled = false;  // finishes with the next commit
    DisconnectReason disconnect_reason = DisconnectReason::none;
    bool told = false;  // the worker knows it
    // Of a beam: the likeliest next tokens, when it has computed all it has; and tokens that the
    // worker, which knows the sequence, does not know yet.
    std::vector<TokenLogprob> candidates;
    std::vector<int32_t> untold_tokens;
    int32_t num_computed_before = 0;  // when it was last preempted, to be computed again
    // While it waits for remote blocks: until then its blocks are filled by somebody else.
    std::optional<double> lease_end_s;
};

}  // namespace nvllm
