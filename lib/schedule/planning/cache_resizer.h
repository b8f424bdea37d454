// Moves blocks while requests run: against fragmentation, and for another size of the cache.
#pragma once

#include <cstdint>
#include <span>

#include "lib/schedule/planning/preemptor.h"
#include "lib/schedule/planning/remote_blocks.h"
#include "lib/schedule/state/request_table.h"
#include "lib/schedule/state/scheduling_context.h"
#include "lib/schedule/state/worker_update.h"

namespace nvllm {

class CacheResizer {
  public:
    CacheResizer(SchedulingContext& context, const RequestTable& requests, WorkerUpdate& update,
                 const RemoteBlocks& remote, Preemptor& preemptor)
        : context_(context),
          requests_(requests),
          update_(update),
          remote_(remote),
          preemptor_(preemptor) {}

    // Sets the number of blocks of each group: blocks move, and sequences are preempted if the used
    // blocks do not fit. False: not yet, try again after the next commit. Throws does_not_fit if an
    // active sequence could not finish in so few blocks.
    bool resize(std::span<const int32_t> num_blocks);

    // Moves used blocks to the beginning of each group when fragmentation is above the configured
    // threshold. This keeps the end of the pool free for a smaller size; paged allocation itself
    // does not need it.
    void defragment();

    // Adds the share of free memory and the fragmentation to the measurements of a step.
    void collect_cache_stats(StepObservation& step);

  private:
    bool blocks_can_move() const;
    bool uses_more_than(std::span<const int32_t> num_blocks) const;
    void check_all_can_finish(std::span<const int32_t> num_blocks) const;
    void take_moves(Compaction&& compaction);
    bool is_check_due() const;

    SchedulingContext& context_;
    const RequestTable& requests_;
    WorkerUpdate& update_;
    const RemoteBlocks& remote_;
    Preemptor& preemptor_;
    double fragmentation_ = 0.0;  // of the worst group, at the last check
};

}  // namespace nvllm
