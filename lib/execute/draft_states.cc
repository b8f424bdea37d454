// Copies of slots around a step with drafts.
#include "lib/execute/draft_states.h"

#include <algorithm>
#include <utility>

#include "kernels/error.h"
#include "kernels/host/dry_run.h"
#include "lib/model/dry_batch.h"
#include "lib/model/forward_pass.h"

namespace nvllm {

bool have_states(std::span<const CacheLayout> groups) {
    return std::ranges::any_of(groups, &CacheLayout::is_state);
}

size_t DraftStates::journal_bytes(Model& model, const WorkerConfig& config,
                                  const ComputeDevice& device) {
    const int64_t rows = int64_t{config.num_draft_states} * (config.most_drafts + 1);
    const DryRun dry(device, config.activations, 1);
    const DryBatch made(model.kv_groups(), dry, rows);
    StateJournal journal = StateJournal::of_dry_run();
    journal.begin(dry.context(), {{.first = 0, .count = rows, .num_before = 1, .slots = {}}});
    ForwardContext batch = made.batch();
    batch.journal = &journal;
    run_blocks(model, batch);
    return journal.bytes();
}

DraftStates::DraftStates(Model& model, const WorkerConfig& config, std::vector<int32_t> first_slots,
                         KvStorage& kv, const ComputeDevice& device)
    : num_slots_(config.num_draft_states),
      first_slots_(std::move(first_slots)),
      kv_(kv),
      journal_(device, journal_bytes(model, config, device)) {
    const std::vector<CacheLayout>& groups = model.kv_groups();
    for (size_t group = 0; group < groups.size(); ++group) {
        if (groups[group].is_state()) state_groups_.push_back(group);
    }
}

StateJournal* DraftStates::begin(const Context& context, std::span<const BatchRow> rows) {
    NVLLM_CHECK(!is_open(), "no step follows on drafts before these are chosen");
    std::vector<UncertainRows> uncertain;
    int64_t first = 0;
    for (size_t entry = 0; entry < rows.size(); ++entry) {
        const BatchRow& row = rows[entry];
        if (!row.drafts.empty()) {
            NVLLM_CHECK(std::ssize(drafted_) < num_slots_ && row.parents.empty(),
                        "states are kept for fewer sequences, with chains of drafts");
            Drafted& drafted = drafted_.emplace_back();
            drafted.entry = entry;
            drafted.num_rows = row.count;
            drafted.num_drafts = static_cast<int32_t>(row.drafts.size());
            drafted.slots.resize(first_slots_.size());
            for (const size_t group : state_groups_) {
                drafted.slots[group] = row.block_tables[group].front();
            }
            copy_states(context, drafted_.size() - 1, Way::out);
            uncertain.push_back({first, row.count, row.first, {}});
        }
        first += row.count;
    }
    if (drafted_.empty()) return nullptr;
    for (size_t index = 0; index < drafted_.size(); ++index) {
        uncertain[index].slots = drafted_[index].slots;
    }
    journal_.begin(context, std::move(uncertain));
    return &journal_;
}

void DraftStates::settle(const Context& context, const StepResult& result) {
    for (size_t index = 0; index < drafted_.size(); ++index) {
        const Drafted& drafted = drafted_[index];
        // A sequence that failed chose nothing.
        const auto num_chosen =
            static_cast<int32_t>(result.sequences[drafted.entry].token_ids.size());
        const int32_t num_rejected = drafted.num_drafts - (std::max(1, num_chosen) - 1);
        if (num_rejected == 0) continue;
        copy_states(context, index, Way::back);
        journal_.repeat(context, index, drafted.num_rows - num_rejected);
    }
    drafted_.clear();
}

void DraftStates::copy_states(const Context& context, size_t index, Way way) const {
    std::vector<BlockMove> moves;
    for (const size_t group : state_groups_) {
        const int32_t own = drafted_[index].slots[group];
        const int32_t kept = first_slots_[group] + static_cast<int32_t>(index);
        moves.push_back({static_cast<int32_t>(group), way == Way::out ? own : kept,
                         way == Way::out ? kept : own});
    }
    kv_.copy_blocks(context, moves);
}

}  // namespace nvllm
