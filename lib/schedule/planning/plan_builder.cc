// Entries and added sequences of a plan under construction.
#include "lib/schedule/planning/plan_builder.h"

#include <algorithm>

namespace nvllm {
namespace {

// What a worker needs to know of a sequence, without its blocks.
AddedSequence describe(const ScheduledSequence& scheduled) {
    const Sequence& sequence = scheduled.sequence;
    const Request& request = scheduled.request->request;
    return {.sequence = sequence.id,
            .token_ids = sequence.token_ids,
            .num_prompt_tokens = sequence.num_prompt_tokens,
            .sampling = request.sampling,
            .pooling = request.pooling,
            .eos_token_ids = request.eos_token_ids,
            .index = sequence.index,
            .rope_choice = scheduled.request->rope_choice,
            .adapter = request.adapter.id,
            .block_tables = {}};
}

}  // namespace

PlanBuilder::PlanBuilder(const SchedulerConfig& config, int32_t token_budget,
                         const PlanLimits& limits)
    : budget(config, std::min(token_budget, limits.max_tokens.value_or(INT32_MAX))),
      alone(limits.alone) {
    plan.entries.reserve(config.max_num_seqs);
    entries.reserve(config.max_num_seqs);
}

void PlanBuilder::register_sequence(ScheduledSequence& scheduled, BlockLists block_tables) {
    AddedSequence& added = plan.added.emplace_back(describe(scheduled));
    added.block_tables = std::move(block_tables);
    scheduled.is_registered = true;
    scheduled.unsent_tokens.clear();
}

void PlanBuilder::add_drafts(size_t entry, DraftTokens&& tokens, bool is_forced) {
    const int32_t count = tokens.size();
    entries[entry].sequence->sequence.plan_drafts(count);
    entries[entry].count += count;
    plan.entries[entry].count += count;
    drafts.push_back({static_cast<uint32_t>(entry), count, is_forced});
    plan.extras.push_back(
        {.entry = static_cast<uint32_t>(entry), .drafts = std::move(tokens), .token_mask = {}});
    budget.spend_on_drafts(count);
}

void PlanBuilder::ask_for_drafts(size_t entry, int32_t count) {
    const auto index = static_cast<uint32_t>(entry);
    auto extras = std::ranges::lower_bound(plan.extras, index, {}, &EntryExtras::entry);
    if (extras == plan.extras.end() || extras->entry != index) {
        extras = plan.extras.insert(extras, {.entry = index, .drafts = {}, .token_mask = {}});
    }
    extras->num_next_drafts = count;
}

void PlanBuilder::drop_entry(ScheduledSequence& scheduled) {
    const auto is_victim = [&](const AddedSequence& added) {
        return added.sequence == scheduled.sequence.id;
    };
    if (std::erase_if(plan.added, is_victim) > 0) scheduled.is_registered = false;
    for (size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].sequence != &scheduled) continue;
        scheduled.sequence.take_back(entries[i].count);
        budget.give_back(entries[i].count, entries[i].partial());
        entries.erase(entries.begin() + static_cast<long>(i));
        plan.entries.erase(plan.entries.begin() + static_cast<long>(i));
        return;
    }
}

}  // namespace nvllm
