// Turns sequences into the next plan, and what became of a plan into new state.
//
//   add() --> waiting --next()--> running --commit()--> running ... finished
//                ^                  |  ^
//                |                  v  |    a slot was wanted for somebody else (policy)
//                |                 paused
//                +------------------+       preempted: blocks ran out, or the worker was lost;
//                                           what was computed may be kept in host memory (swapped)
//
// A request that is held gives up its slots in the same way, and comes back when it is not held any
// more; those who want to come in may take its blocks.
//
// A waiting sequence may be given blocks that somebody else fills (awaiting_blocks); then it goes
// on as a paused one does, or waits again when they do not come in time.
//
// In each step the budget of tokens goes to sequences with one token to compute, then to those with
// more in the order of the policy, then to waiting ones, which come in only when the cache holds
// all they have to compute. Who runs out of blocks takes those of paused sequences, then those of
// running ones that rank after it (policy), or waits with what it has; the first of the running
// always advances.
//
// Invariants: a sequence is in a plan at most once; every position of a sequence is planned exactly
// once between preemptions; up to pipeline_depth plans are uncommitted and they are committed in
// their order.
//
// The engine thread owns it: no locks, no clock; times are handed in.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "lib/cache/cache_manager.h"
#include "lib/request/batch_plan.h"
#include "lib/request/request.h"
#include "lib/request/sequence.h"
#include "lib/request/step_result.h"
#include "lib/schedule/admission.h"
#include "lib/schedule/policy.h"
#include "lib/schedule/preemption.h"
#include "lib/schedule/scheduled_sequence.h"
#include "lib/schedule/scheduler_config.h"
#include "lib/schedule/step_time.h"
#include "lib/schedule/token_budget.h"

namespace nvllm {

struct Snapshot;
enum class SnapshotDetail : uint8_t;

// Counts since the start; num_running and num_waiting are of now.
struct SchedulerStats {
    int32_t num_running = 0;
    int32_t num_waiting = 0;  // the paused ones included
    int32_t num_paused = 0;
    int32_t num_swapped = 0;
    int32_t num_awaiting = 0;      // for remote blocks
    int32_t token_budget = 0;      // of the next step
    int64_t steps = 0;             // plans made
    int64_t scheduled_tokens = 0;  // tokens in them
    int64_t prefill_tokens = 0;    // of those, see BatchPlan::num_prefill_tokens
    int64_t filled_slots = 0;      // sequences in them, of steps * max_num_seqs
    int64_t preemptions = 0;       // for want of blocks, swaps included
    int64_t swaps_out = 0;         // sequences that went to host memory
    int64_t swaps_in = 0;
    int64_t recomputed_tokens = 0;  // computed once more after a preemption
    int64_t pauses = 0;             // for want of a slot, or held
    int64_t turns_of_oldest = 0;    // let in out of the policy's order, so that nobody starves
    int64_t remote_waits = 0;       // for blocks that somebody else fills
    int64_t remote_tokens = 0;      // that came so
    int64_t remote_expiries = 0;    // waits that ended without them
    int64_t worker_resets = 0;
    // Nothing could be planned though work waited and no plan was under way: our mistake.
    int64_t stalled_steps = 0;
};

// Blocks to be filled by somebody else.
struct RemoteLease {
    int32_t first = 0;  // position; those before it were found in the cache and are not written to
    int32_t end = 0;
    std::vector<std::vector<BlockId>> block_tables;  // per cache group
};

// What plans have to keep to for a while, beyond the configuration.
struct PlanLimits {
    std::optional<SequenceId> alone;     // nothing is planned beside it
    std::optional<int32_t> most_tokens;  // in a step

    bool operator==(const PlanLimits&) const = default;
};

// What a beam search found, best first.
struct BeamResult {
    RequestId request = 0;
    std::vector<BeamHypothesis> hypotheses;
};

class Scheduler {
  public:
    // `cache` outlives the scheduler. Throws bad_config when the configuration contradicts itself.
    Scheduler(const SchedulerConfig& config, CacheManager& cache);
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // Makes the sequences of the request's continuations; their ids, by index. A fault when it can
    // never run. REQUIRES: its sampling parameters were checked.
    Result<std::vector<SequenceId>> add(const Request& request);

    // The next plan, or nothing: no work, or pipeline_depth plans are uncommitted. It has no
    // entries when blocks are to be moved and nothing to be computed.
    std::optional<BatchPlan> next(double now_s);

    // From the next plan on. A limit that would leave nothing to be planned does not hold then.
    void limit_plans(const PlanLimits& limits) { limits_ = limits; }

    // What ids and lengths say about the oldest uncommitted plan's outcome, one verdict for each of
    // its entries. REQUIRES: the result is of that plan.
    std::vector<StopDecision> check_stop(const StepResult& result) const;

    // The oldest uncommitted plan is done: its sequences advance or finish. `verdicts` are those of
    // judge(), perhaps stricter. Returns the sequences that finished; find() knows them until the
    // following next() or commit(). REQUIRES: what judge() requires; a sequence that was to choose
    // a token and goes on has one accepted.
    std::vector<SequenceId> commit(const StepResult& result,
                                   const std::vector<StopDecision>& decisions, double now_s);

    // The keys and values of a waiting sequence's first `num_tokens` tokens are to come from
    // elsewhere: it takes its blocks and is not planned before they come, or the deadline. Whoever
    // fills them stops by then, or when the sequence is cancelled. Nothing when a plan or what the
    // next one is to copy may still read blocks that were given up, there is no room, the tokens
    // are in the cache already, or the sequence is a beam or waits for a sibling.
    std::optional<RemoteLease> await_remote_blocks(SequenceId sequence, int32_t num_tokens,
                                                   double deadline_s, double now_s);
    // Those of its first `num_tokens` are there: they count as computed, and it goes on as soon as
    // it has a slot. False when it waits no more, and the blocks may be another's: the deadline
    // passed before a call of next(), it was cancelled, the worker was lost.
    bool remote_blocks_arrived(SequenceId sequence, int32_t num_tokens, double now_s);

    // Other numbers of blocks, while requests run: blocks move, and sequences give way when the
    // rest does not hold all that is used. False: not yet, try again after the next commit. Throws
    // does_not_fit when a sequence under way could not finish.
    bool resize_cache(std::span<const int32_t> num_blocks, double now_s);

    // What became of a step, for the token budget and the choice between swapping and recomputing;
    // what it says of the cache is filled in here.
    void observe(StepObservation step);

    // The searches that ended since the last call; their sequences are among the finished ones.
    std::vector<BeamResult> take_beam_results();

    // Takes back a request, or one continuation. Returns those that finished at once; those in an
    // uncommitted plan finish with the next commit and are among what it returns. Unknown and
    // finished ones are no error.
    std::vector<SequenceId> cancel(RequestId request);
    std::vector<SequenceId> cancel_sequence(SequenceId sequence);

    // The worker is gone with all it held: running sequences wait again with the tokens they have,
    // nothing is in flight, and the next plans tell a fresh worker all it needs. Returns the
    // cancelled sequences that finished by this.
    std::vector<SequenceId> reset_worker();

    // Nothing more is planned of it until it may go on. Its sequences give up their slots and keep
    // their blocks as long as nobody wants in who needs them. A beam search is not held; unknown
    // requests are no error.
    void hold(RequestId request);
    void go_on(RequestId request);

    // Something that is not held.
    bool has_work() const;
    // Plans not committed.
    int32_t num_in_flight() const { return static_cast<int32_t>(in_flight_.size()); }
    // Null when unknown.
    const Sequence* find(SequenceId sequence) const;
    SchedulerStats stats() const;
    // Everything as it is now, for people: snapshot.h.
    Snapshot snapshot(SnapshotDetail detail, double now_s) const;

    // Throws internal when states, queues, counters and blocks disagree; slow, for tests.
    void check_integrity() const;

  private:
    struct PlannedEntry {
        ScheduledSequence* sequence = nullptr;
        int32_t count = 0;
        OutputKind output = OutputKind::none;

        // Leaves tokens that are known.
        bool partial() const { return output == OutputKind::none; }
    };
    struct InFlight {
        uint64_t number = 0;
        std::vector<PlannedEntry> entries;  // as in the plan
        bool lets_plan_ahead = true;        // all that it leaves open is found by the worker
    };
    // A plan being made.
    struct PlanBuilder {
        PlanBuilder(const SchedulerConfig& config, int32_t most_tokens);

        BatchPlan plan;
        std::vector<PlannedEntry> entries;
        TokenBudget budget;
        bool short_of_blocks = false;  // somebody running needs blocks: nobody comes in
    };

    // Planning.
    PlanBuilder begin_plan();
    bool is_left_out(const ScheduledSequence& scheduled) const {
        return limits_.alone && *limits_.alone != scheduled.sequence.id;
    }
    // Whether it runs on: victims of this step stand in the list still.
    bool can_be_planned(const ScheduledSequence& scheduled) const {
        return scheduled.sequence.state == SequenceState::running &&
               scheduled.disconnect_reason == DisconnectReason::none && !scheduled.cancelled &&
               !is_left_out(scheduled) && !scheduled.request->is_held;
    }
    void pause_for_waiting();
    ScheduledSequence* last_to_pause_for(const ScheduledSequence& waiting) const;
    void resume_paused(bool before_admission);
    void plan_running(PlanBuilder& builder);
    void plan_sequence(PlanBuilder& builder, ScheduledSequence& sequence);
    bool take_victim(PlanBuilder& builder, const ScheduledSequence& requester);
    void drop_entry(PlanBuilder& builder, ScheduledSequence& sequence);
    void tell(PlanBuilder& builder, ScheduledSequence& sequence,
              std::vector<std::vector<BlockId>> block_tables);
    void add_entry(PlanBuilder& builder, ScheduledSequence& sequence, int32_t count,
                   std::vector<std::vector<BlockId>>&& new_blocks);
    std::optional<BatchPlan> finalize(PlanBuilder& builder);
    bool may_plan_now() const;
    bool expect_token(const PlannedEntry& entry);

    // Newcomers.
    void admit_waiting(PlanBuilder& builder);
    void take_slot(ScheduledSequence& sequence, bool oldest);
    int32_t slots_to_take(const ScheduledSequence& sequence) const;
    int32_t num_free_slots() const;
    bool is_turn_of_oldest() const;
    std::optional<size_t> next_waiting(size_t from, bool oldest) const;
    bool admit(PlanBuilder& builder, ScheduledSequence& sequence, int32_t headroom);
    bool preempt_for(PlanBuilder& builder, const ScheduledSequence& sequence);
    bool try_admit(PlanBuilder& builder, ScheduledSequence& sequence, int32_t headroom);
    bool swap_in(PlanBuilder& builder, ScheduledSequence& sequence, int32_t headroom);
    int32_t num_growing() const;
    bool may_grow(const ScheduledSequence& sequence) const;
    bool ready(const ScheduledSequence& sequence) const;
    bool may_skip_prompt(const ScheduledSequence& sequence) const;
    static bool reads_early_positions(const ScheduledSequence& sequence);

    // Holding.
    void pause_held();
    ScheduledSequence* last_held() const;

    // Beams.
    void begin_beams(ScheduledRequest& request);
    void take_candidates(ScheduledSequence& sequence, const SequenceStep& step);
    void advance_beams(ScheduledRequest& request);
    std::vector<ScheduledSequence*> free_beams(const ScheduledRequest& request,
                                               const std::vector<bool>& goes_on) const;
    void fork(const ScheduledSequence& parent, ScheduledSequence& child);
    void rest(ScheduledSequence& sequence);
    void end_beams(ScheduledRequest& request);
    bool make_private(PlanBuilder& builder, ScheduledSequence& sequence);

    // Blocks filled by others.
    bool may_await_blocks(const ScheduledSequence& sequence) const;
    void end_lease(ScheduledSequence& sequence);
    void end_leases(double until_s);
    void wait_without_blocks(ScheduledSequence& sequence);
    // Of those in the queue, paused and leased ones hold blocks. It may be long, so it is searched
    // only when there can be any.
    bool queue_may_hold_blocks() const { return counters_.pauses + counters_.remote_waits > 0; }

    // Moving blocks.
    void look_at_cache(StepObservation& step);
    void move_blocks_together();
    bool blocks_are_at_rest() const;
    bool blocks_can_move() const;
    bool has_moves() const { return !moves_.empty() || !num_blocks_.empty(); }
    bool uses_more_than(std::span<const int32_t> num_blocks) const;
    void check_all_can_finish(std::span<const int32_t> num_blocks) const;
    void take_moves(Compaction&& compaction);

    // Advancing.
    const InFlight& oldest_plan(const StepResult& result) const;
    void advance(const PlannedEntry& entry, const SequenceStep& step, const StopDecision& decision);
    bool ranks_first(const ScheduledSequence& sequence) const;
    void depart(ScheduledSequence& sequence);
    void preempt(ScheduledSequence& sequence);
    bool should_swap(const ScheduledSequence& sequence) const;
    bool swap_out(ScheduledSequence& sequence);
    void recompute(ScheduledSequence& sequence);
    void pause(ScheduledSequence& sequence);
    void finish(ScheduledSequence& sequence, FinishReason reason);
    void choose_next_leader(ScheduledRequest& request);
    void cancel(ScheduledSequence& sequence);
    void cancel_all(const ScheduledRequest& request);
    std::vector<SequenceId> take_finished();
    void forget_retired();
    void leave_running();
    ScheduledSequence* lookup(SequenceId sequence) const;
    void check_counts() const;
    void explain_waiting(Snapshot& snapshot) const;

    SchedulerConfig config_;
    const SchedulingPolicy& policy_;
    CacheManager& cache_;
    SequenceId next_sequence_ = 1;
    uint64_t next_plan_ = 1;
    uint64_t next_turn_ = 1;
    int32_t admitted_since_turn_ = 0;  // of the oldest
    double now_s_ = 0.0;               // handed in last
    bool budget_was_spent_ = false;    // by the latest plan
    PlanLimits limits_;

    std::unordered_map<SequenceId, std::unique_ptr<ScheduledSequence>> sequences_;
    // Those with a living continuation.
    std::unordered_map<RequestId, std::shared_ptr<ScheduledRequest>> requests_;
    WaitingQueue waiting_;
    std::vector<ScheduledSequence*> running_;  // in the order of coming in
    bool somebody_left_ = false;               // of those in the list
    std::vector<ScheduledSequence*> ordered_;  // of a plan being made
    std::vector<ScheduledSequence*> leased_;   // of the waiting, those that await remote blocks
    // For the next plan.
    std::vector<SwapMove> swaps_out_;
    std::vector<BlockMove> copies_;
    std::vector<BlockMove> moves_;
    std::vector<TableChange> table_changes_;
    std::vector<int32_t> num_blocks_;  // when they changed
    StepTimeController step_time_;
    double fragmentation_ = 0.0;  // of the worst group, when it was last looked at
    PreemptionCosts preemption_costs_;
    std::deque<InFlight> in_flight_;   // oldest first
    std::vector<SequenceId> removed_;  // what the worker is to forget with the next plan
    std::vector<ScheduledSequence*> cancelled_;
    std::vector<SequenceId> finished_;                // not returned to the caller yet
    std::vector<const ScheduledRequest*> searching_;  // living requests with beams
    std::vector<const ScheduledRequest*> held_;       // living requests
    std::vector<BeamResult> beam_results_;            // not returned to the caller yet
    std::vector<ScheduledSequence*> retired_;         // finished, still findable
    SchedulerStats counters_;
};

}  // namespace nvllm
