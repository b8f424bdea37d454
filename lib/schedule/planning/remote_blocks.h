// Loads of KV from a remote source into the blocks of waiting sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/schedule/state/plans_in_flight.h"
#include "lib/schedule/state/request_table.h"
#include "lib/schedule/state/running_set.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/waiting_queue.h"
#include "lib/schedule/state/worker_update.h"

namespace nvllm {

// Blocks that a remote source fills.
struct RemoteLease {
    int32_t first = 0;  // position; those before it were cached and must not be written
    int32_t end = 0;
    std::vector<std::vector<BlockId>> block_tables;  // per cache group
};

class RemoteBlocks {
  public:
    RemoteBlocks(SchedulingContext& context, const RequestTable& requests, WaitingQueue& waiting,
                 const RunningSet& running, const PlansInFlight& plans, const WorkerUpdate& update)
        : context_(context),
          requests_(requests),
          waiting_(waiting),
          running_(running),
          plans_(plans),
          update_(update) {}

    // Allocates blocks for the first `num_tokens` tokens of a waiting sequence; a remote source
    // will write their KV. The sequence is not planned until the blocks arrive or the deadline
    // passes. The source must stop writing at the deadline or when the sequence is cancelled.
    // Returns nothing if: an uncommitted plan or a pending copy may still read freed blocks; there
    // are not enough free blocks; the tokens are cached already; the prompt's logprobs are to be
    // computed; the sequence is a beam or waits for another sequence of its request.
    std::optional<RemoteLease> load(SequenceId sequence, int32_t num_tokens, double deadline_s,
                                    double now_s);
    // The KV of the first `num_tokens` tokens is written: they count as computed, and the sequence
    // runs as soon as it has a slot. False if the sequence does not wait for it: the deadline
    // passed before a call of Scheduler::next(), it was cancelled, or the worker was lost. Its
    // blocks may then belong to another sequence.
    bool arrived(SequenceId sequence, int32_t num_tokens, double now_s);

    // Sequences with a deadline up to `until_s` wait again, without blocks.
    void expire(double until_s);
    // Does nothing if the sequence has no lease.
    void end_lease(ScheduledSequence& scheduled);

    // Sequences that wait for remote blocks.
    const std::vector<ScheduledSequence*>& leased() const { return leased_; }
    // No block is read or written by an uncommitted plan or a pending copy.
    bool no_plans_in_flight() const {
        return plans_.empty() && update_.reads_no_blocks() && !context_.cache.has_tier_moves();
    }

  private:
    bool may_load(const ScheduledSequence& scheduled) const;

    SchedulingContext& context_;
    const RequestTable& requests_;
    WaitingQueue& waiting_;
    const RunningSet& running_;
    const PlansInFlight& plans_;
    const WorkerUpdate& update_;
    std::vector<ScheduledSequence*> leased_;
};

}  // namespace nvllm
