// Collects changes for the next plan.
#include "lib/schedule/state/worker_update.h"

#include <algorithm>
#include <utility>

namespace nvllm {

void WorkerUpdate::remove(ScheduledSequence& scheduled) {
    if (std::exchange(scheduled.is_registered, false)) removed.push_back(scheduled.sequence.id);
}

void WorkerUpdate::move_into(BatchPlan& plan) {
    plan.removed = std::exchange(removed, {});
    plan.moves = std::exchange(moves, {});
    plan.table_changes = std::exchange(table_changes, {});
    plan.num_blocks = std::exchange(num_blocks, {});
    plan.swaps_out = std::exchange(swaps_out, {});
    plan.copies = std::exchange(copies, {});
    plan.adapters = std::exchange(adapters, {});
    // The worker has no table of a sequence that was removed after the change.
    std::erase_if(plan.table_changes, [&](const TableChange& change) {
        return std::ranges::find(plan.removed, change.owner) != plan.removed.end();
    });
}

}  // namespace nvllm
