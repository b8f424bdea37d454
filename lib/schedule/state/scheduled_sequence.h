// A sequence as the scheduler stores it: with its blocks, its request and its pending changes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/cache/cache_manager.h"
#include "lib/request/beam_search.h"
#include "lib/request/draft_tokens.h"
#include "lib/request/request.h"
#include "lib/request/sequence.h"
#include "lib/schedule/state/draft_history.h"

namespace nvllm {

struct ScheduledSequence;

// The beams of a request that is searched.
struct BeamGroup {
    BeamSearch search;
    std::vector<ScheduledSequence*> beams;  // best first; one until the prompt is computed
    int32_t num_candidates = 0;             // that the search needs of each beam
    bool has_slots = false;  // for all its beams, from the admission of the first until the end
};

// What the sequences of a request have in common.
struct ScheduledRequest {
    Request request;  // without the prompt, which each sequence has
    SequenceId first = 0;
    int32_t num_active = 0;   // sequences that have not finished
    int32_t rope_choice = 0;  // as in AddedSequence; the same for all, because they share blocks
    std::optional<AdapterTier> adapter_tier = {};  // when it came; empty: it has no adapter
    // The sequence that computes the prompt. The others wait for it and find the prompt in the
    // cache.
    SequenceId prompt_sequence = 0;
    bool prompt_computed = false;
    bool is_paused_for_client = false;  // nothing of it is planned
    std::unique_ptr<BeamGroup> beams;   // null: no beam search

    SequenceId end() const {
        return first + static_cast<SequenceId>(request.sampling.num_sequences());
    }
};

// Why a sequence leaves the running set at the commit after which nothing of it is in flight.
enum class PendingRemoval : uint8_t { none, preemption, pause };

// Draft tokens that follow the sequence's first `num_known` tokens; stale once it has more.
struct PendingDrafts {
    DraftTokens tokens;
    int32_t num_known = 0;
};

struct ScheduledSequence {
    Sequence sequence;
    SequenceBlocks cache;
    std::shared_ptr<ScheduledRequest> request;
    int32_t num_plans = 0;   // uncommitted plans that name it
    bool cancelled = false;  // finishes with the next commit
    PendingRemoval removal = PendingRemoval::none;
    bool is_registered = false;  // the worker knows it
    // Of a beam that has computed all its tokens: the likeliest next ones.
    std::vector<TokenLogprob> candidates;
    // Tokens that a worker which knows the sequence does not know yet (beams).
    std::vector<int32_t> unsent_tokens;
    int32_t num_computed_before = 0;  // at the last preemption; computed again after it
    // Until then a remote source fills its blocks.
    std::optional<double> lease_end_s;
    double reads_until_s = 0.0;  // it waits for reads of files no longer
    PendingDrafts drafts;
    DraftHistory draft_history = {};
    // Stands at the committed tokens; null: the request is held to nothing.
    std::unique_ptr<AnswerConstraint> constraint = {};

    bool is_beam() const { return request->beams != nullptr; }
    // Whether plans may name it. A victim of the present step is still in the running set.
    bool can_be_planned() const {
        return sequence.state == SequenceState::running && removal == PendingRemoval::none &&
               !cancelled && !request->is_paused_for_client;
    }
};

// Releases the blocks of a sequence that waits from here on. The cache gets its tokens as a hint.
inline void release_to_wait(ScheduledSequence& scheduled, CacheManager& cache) {
    cache.free(scheduled.cache);
    cache.set_reuse_hint(scheduled.cache, scheduled.sequence.token_ids);
}

}  // namespace nvllm
