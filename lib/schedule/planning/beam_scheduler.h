// Beam search in the scheduler: a group of sequences that advances together.
//
// Each beam is a sequence like any other, planned and preempted by itself. It computes its tokens
// and then holds the likeliest next tokens until all beams of its group have theirs. The group then
// decides: beams continue, fork into sequences whose beams ended, or the search ends. Forked beams
// share blocks; a block is copied before a beam writes to it.
#pragma once

#include <vector>

#include "lib/schedule/planning/plan_builder.h"
#include "lib/schedule/planning/preemptor.h"
#include "lib/schedule/planning/sequence_finisher.h"
#include "lib/schedule/state/request_table.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/waiting_queue.h"
#include "lib/schedule/state/worker_update.h"

namespace nvllm {

// The hypotheses of a beam search, best first.
struct BeamResult {
    RequestId request = 0;
    std::vector<BeamHypothesis> hypotheses;
};

class BeamScheduler {
  public:
    BeamScheduler(SchedulingContext& context, const RequestTable& requests, WaitingQueue& waiting,
                  RunningSet& running, WorkerUpdate& update, Preemptor& preemptor,
                  SequenceFinisher& finisher)
        : context_(context),
          requests_(requests),
          waiting_(waiting),
          running_(running),
          update_(update),
          preemptor_(preemptor),
          finisher_(finisher) {}

    // Makes the first sequence of the request its first beam. REQUIRES: the sequences are known.
    void begin(ScheduledRequest& request);
    // A beam computed its tokens; the group advances if this was the last of its beams.
    void take_candidates(ScheduledSequence& scheduled, const SequenceStep& step);
    // Blocks that other beams share are replaced before this beam writes to them. False if blocks
    // are missing and no victim frees any.
    bool copy_on_write(PlanBuilder& builder, ScheduledSequence& scheduled);

    // The searches that ended since the last call.
    std::vector<BeamResult> take_results();

  private:
    void advance(ScheduledRequest& request);
    std::vector<ScheduledSequence*> unused_sequences(const ScheduledRequest& request,
                                                     const std::vector<bool>& continues) const;
    void fork(const ScheduledSequence& parent, ScheduledSequence& child);
    void release(ScheduledSequence& scheduled);
    void end(ScheduledRequest& request);

    SchedulingContext& context_;
    const RequestTable& requests_;
    WaitingQueue& waiting_;
    RunningSet& running_;
    WorkerUpdate& update_;
    Preemptor& preemptor_;
    SequenceFinisher& finisher_;
    std::vector<BeamResult> results_;
};

}  // namespace nvllm
