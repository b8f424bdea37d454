// Turns sequences into the next plan, and the result of a plan into new state.
//
//   add() --> waiting --next()--> running --commit()--> running ... finished
//                ^                  |  ^
//                |                  v  |    another sequence gets the slot (policy), or the client
//                |                 paused   is slow
//                +------------------+       preempted: blocks ran out, or the worker was lost;
//                                           computed KV may be kept in host memory (swapped)
//
// A request that is paused for a slow client releases its slots and re-enters the queue on resume.
// Its blocks may be taken to admit waiting sequences.
//
// A remote source may fill the blocks of a waiting sequence (awaiting_blocks). The sequence is
// paused when they arrive, and waits again if they miss their deadline.
//
// If blocks run out, a sequence takes those of paused sequences, then those of running ones that
// rank after it (policy), or keeps its own and is not planned; the first of the running sequences
// always advances.
//
// Invariants: a sequence is in a plan at most once; every position of a sequence is planned exactly
// once between preemptions, but for rejected drafts; up to pipeline_depth plans are uncommitted and
// they are committed in their order.
//
// The class is a façade: planning/ holds the parts, state/ what they share. The engine thread owns
// it: no locks, no clock; times are arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/cache/cache_manager.h"
#include "lib/request/batch_plan.h"
#include "lib/request/request.h"
#include "lib/request/sequence.h"
#include "lib/request/step_result.h"
#include "lib/schedule/planning/admission.h"
#include "lib/schedule/planning/backpressure.h"
#include "lib/schedule/planning/batch_composer.h"
#include "lib/schedule/planning/beam_scheduler.h"
#include "lib/schedule/planning/cache_resizer.h"
#include "lib/schedule/planning/draft_planner.h"
#include "lib/schedule/planning/plan_builder.h"
#include "lib/schedule/planning/preemptor.h"
#include "lib/schedule/planning/remote_blocks.h"
#include "lib/schedule/planning/sequence_finisher.h"
#include "lib/schedule/planning/time_slicer.h"
#include "lib/schedule/scheduler_config.h"
#include "lib/schedule/scheduler_stats.h"
#include "lib/schedule/state/plans_in_flight.h"
#include "lib/schedule/state/request_table.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/waiting_queue.h"
#include "lib/schedule/state/worker_update.h"
#include "lib/schedule/step_time.h"

namespace nvllm {

struct Snapshot;
enum class SnapshotDetail : uint8_t;

class Scheduler {
  public:
    // `cache`, and `proposer` unless it is null, outlive the scheduler. Throws bad_config if the
    // configuration contradicts itself.
    Scheduler(const SchedulerConfig& config, CacheManager& cache,
              DraftProposer* proposer = nullptr);
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // Makes the sequences of the request; returns their ids, by index. A fault if the request can
    // never run, or one with its id is in flight. REQUIRES: its sampling parameters were checked;
    // a request with an adapter has its key.
    Result<std::vector<SequenceId>> add(const Request& request);

    // The next plan. Nothing if no sequence can be planned or pipeline_depth plans are uncommitted.
    // The plan has no entries if blocks are to be moved and no token can be computed. A limit that
    // would leave nothing to plan does not hold.
    std::optional<BatchPlan> next(double now_s, const PlanLimits& limits = {});

    // The stop check of the oldest uncommitted plan by ids and lengths: one decision for each of
    // its entries. REQUIRES: the result is of that plan.
    std::vector<StopDecision> check_stop(const StepResult& result) const;

    // The oldest uncommitted plan is done: its sequences advance or finish. `decisions` are those
    // of check_stop(), perhaps with fewer accepted tokens. Returns the sequences that finished;
    // find() knows them until the following next() or commit(). One whose constraint refuses a
    // token finishes with an error that its decision does not have. REQUIRES: the same as
    // check_stop(); a sequence that samples and continues has a token accepted.
    std::vector<SequenceId> commit(const StepResult& result,
                                   const std::vector<StopDecision>& decisions, double now_s);

    // Loads of KV from elsewhere.
    RemoteBlocks& remote_blocks() { return remote_; }

    // CacheResizer::resize().
    bool resize_cache(std::span<const int32_t> num_blocks, double now_s);

    // Measurements of a step, for the token budget and the choice between swapping and recomputing.
    // The state of the cache is added here.
    void observe(StepObservation step);

    // The beam searches that ended since the last call; their sequences have finished.
    std::vector<BeamResult> take_beam_results() { return beams_.take_results(); }

    // Cancels a request, or only its sequence with this index. Returns the sequences that finished
    // at once; those in an uncommitted plan finish with the next commit, which returns them. Does
    // nothing for unknown and finished ones.
    std::vector<SequenceId> cancel(RequestId request, std::optional<int32_t> index = {});

    // The worker is gone with its state: running sequences wait again with the tokens they have, no
    // plan is in flight, and the next plans register every sequence with the new worker. Returns
    // the cancelled sequences that finished by this.
    std::vector<SequenceId> reset_worker();

    // Requests of which nothing is planned: their sequences release their slots, and keep their
    // blocks until a waiting sequence needs them.
    Backpressure& backpressure() { return backpressure_; }

    // No request with the adapter comes any more; those that have it go on.
    void retire_adapter(int32_t adapter) { context_.adapters.retire(adapter); }

    // Whether a sequence runs or waits that is not paused for its client.
    bool has_work() const {
        return backpressure_.has_work() || context_.cache.disk_tier().has_work();
    }
    // Plans not committed.
    int32_t num_in_flight() const { return plans_.size(); }
    // Null if unknown.
    const Sequence* find(SequenceId sequence) const;
    SchedulerStats stats() const;
    // The present state for people: snapshot.h.
    Snapshot snapshot(SnapshotDetail detail, double now_s) const;

    // Throws internal if states, queues, counters and blocks disagree; slow, for tests.
    void check_integrity() const;

  private:
    void add_sequence(const std::shared_ptr<ScheduledRequest>& shared, const Request& request,
                      int32_t index, int32_t longest_length);
    void advance(const PlannedEntry& entry, const SequenceStep& step, const StopDecision& decision);
    void requeue_all();
    void check_counts() const;

    SchedulingContext context_;
    RequestTable requests_;
    WaitingQueue waiting_;
    RunningSet running_;
    WorkerUpdate update_;
    PlansInFlight plans_;
    StepTimeController step_time_;
    RemoteBlocks remote_;
    Preemptor preemptor_;
    Backpressure backpressure_;
    SequenceFinisher finisher_;
    BeamScheduler beams_;
    Admission admission_;
    TimeSlicer slicer_;
    DraftPlanner drafts_;
    BatchComposer composer_;
    CacheResizer resizer_;
};

}  // namespace nvllm
