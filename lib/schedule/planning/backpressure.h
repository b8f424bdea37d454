// Pauses requests whose clients read too slowly.
#pragma once

#include <cstdint>

#include "lib/schedule/planning/preemptor.h"
#include "lib/schedule/state/request_table.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/waiting_queue.h"

namespace nvllm {

class Backpressure {
  public:
    Backpressure(const RequestTable& requests, const WaitingQueue& waiting, RunningSet& running,
                 Preemptor& preemptor)
        : requests_(requests), waiting_(waiting), running_(running), preemptor_(preemptor) {}

    // Nothing of the request is planned until resume(). Does nothing for a beam search and for an
    // unknown request.
    void pause(RequestId request);
    void resume(RequestId request);
    // REQUIRES: the request is removed from the table next.
    void forget(const ScheduledRequest& request) { num_paused_ -= request.is_paused_for_client; }

    // Running sequences of paused requests release their slots, those in a plan at its commit.
    void release_slots();
    // Whether a sequence runs, or waits and is not paused for its client.
    bool has_work() const;
    // The last queued sequence of a paused request with blocks. Null: there is none.
    ScheduledSequence* last_with_blocks() const;

  private:
    const RequestTable& requests_;
    const WaitingQueue& waiting_;
    RunningSet& running_;
    Preemptor& preemptor_;
    int32_t num_paused_ = 0;  // requests
};

}  // namespace nvllm
