// What the next plan tells the worker besides the entries: changes since the last plan.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/request/batch_plan.h"
#include "lib/schedule/state/scheduled_sequence.h"

namespace nvllm {

struct WorkerUpdate {
    std::vector<SequenceId> removed;  // the worker forgets them
    std::vector<BlockMove> moves;
    std::vector<TableChange> table_changes;
    std::vector<int32_t> num_blocks;  // of each cache group; empty: as before
    std::vector<SwapMove> swaps_out;
    std::vector<BlockMove> copies;
    std::vector<AdapterChange> adapters;

    // The worker forgets the sequence, if it knows it.
    void remove(ScheduledSequence& scheduled);
    // Only of sequences that the worker knows: others come to it with their tables as they are.
    void change_table(const ScheduledSequence& owner, const TableChange& change) {
        if (owner.is_registered) table_changes.push_back(change);
    }
    bool moves_blocks() const { return !moves.empty() || !num_blocks.empty(); }
    // A plan without entries is needed for these.
    bool has_moves() const { return moves_blocks() || !adapters.empty(); }
    // Whether no block is read by a copy that is still to be carried out.
    bool reads_no_blocks() const { return swaps_out.empty() && copies.empty() && !moves_blocks(); }
    // Moves everything into the plan.
    void move_into(BatchPlan& plan);
    // The worker is new: it knows nothing.
    void clear() { *this = {}; }
};

}  // namespace nvllm
