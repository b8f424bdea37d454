// Finishes and cancels sequences.
#pragma once

#include <vector>

#include "lib/schedule/planning/backpressure.h"
#include "lib/schedule/planning/remote_blocks.h"
#include "lib/schedule/state/request_table.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/waiting_queue.h"
#include "lib/schedule/state/worker_update.h"

namespace nvllm {

// After finish() and cancel() the running set needs remove_left().
class SequenceFinisher {
  public:
    SequenceFinisher(SchedulingContext& context, RequestTable& requests, WaitingQueue& waiting,
                     RunningSet& running, WorkerUpdate& update, RemoteBlocks& remote,
                     Backpressure& backpressure)
        : context_(context),
          requests_(requests),
          waiting_(waiting),
          running_(running),
          update_(update),
          remote_(remote),
          backpressure_(backpressure) {}

    // The sequence leaves the queue or the running set and releases its blocks. Its request ends
    // with its last sequence. REQUIRES: not finished.
    void finish(ScheduledSequence& scheduled, FinishReason reason);
    // Finishes the sequence now, or with the next commit if a plan names it.
    void cancel(ScheduledSequence& scheduled);
    void cancel_all(const ScheduledRequest& request);
    // A plan was committed.
    void finish_cancelled();
    // The worker is gone: no commit will come.
    void forget_cancelled() { cancelled_.clear(); }

    // The sequences that finished since the last call.
    std::vector<SequenceId> take_finished();

  private:
    void end_request(ScheduledRequest& request);

    SchedulingContext& context_;
    RequestTable& requests_;
    WaitingQueue& waiting_;
    RunningSet& running_;
    WorkerUpdate& update_;
    RemoteBlocks& remote_;
    Backpressure& backpressure_;
    std::vector<ScheduledSequence*> cancelled_;  // named by a plan
    std::vector<SequenceId> finished_;
};

}  // namespace nvllm
