// Applies a plan's differences to the known sequences.
#include "lib/execute/worker_sequences.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"
#include "lib/decode/device_sampler.h"
#include "lib/execute/adapters/adapter_store.h"

namespace nvllm {
namespace {

std::optional<Fault> refusal_of(const AddedSequence& added, const AdapterStore* adapters) {
    if (added.adapter == 0) return std::nullopt;
    if (adapters != nullptr) return adapters->fault_of(added.adapter);
    return Fault{ErrorKind::not_found,
                 fmt::format("adapter {} is not loaded: this worker computes without adapters",
                             added.adapter)};
}

}  // namespace

int32_t WorkerSequence::num_prompt_logprobs(const PlanEntry& entry) const {
    if (!sampling.params().prompt_logprobs || sampling.continuation_index() != 0) return 0;
    return std::clamp(num_prompt_tokens - 1 - entry.first, 0, entry.count);
}

bool WorkerSequence::is_sampled_on_device(bool has_drafts) const {
    return samples_on_device && (!has_drafts || DeviceSampler::can_expect(sampling.params()));
}

WorkerSequences::WorkerSequences(size_t num_cache_groups, bool has_rope_choices,
                                 bool can_sample_on_device, const AdapterStore* adapters)
    : num_cache_groups_(num_cache_groups),
      has_rope_choices_(has_rope_choices),
      can_sample_on_device_(can_sample_on_device),
      adapters_(adapters) {}

WorkerSequence* WorkerSequences::find(SequenceId sequence) {
    const auto found = sequences_.find(sequence);
    return found == sequences_.end() ? nullptr : &found->second;
}

void WorkerSequences::update(const BatchPlan& plan) {
    for (const SequenceId sequence : plan.removed) sequences_.erase(sequence);
    for (const TableChange& change : plan.table_changes) {
        at(change.owner)
            .block_tables[static_cast<size_t>(change.group)][static_cast<size_t>(change.index)] =
            change.block;
    }
    for (const AddedSequence& added : plan.added) add(added);
    for (const PlanEntry& entry : plan.entries) append(entry);
}

void WorkerSequences::add(const AddedSequence& added) {
    NVLLM_CHECK(added.rope_choice == 0 || (added.rope_choice == 1 && has_rope_choices_),
                "a sequence takes rotary frequencies that the model has");
    WorkerSequence sequence{
        .token_ids = added.token_ids,
        .block_tables = added.block_tables,
        .sampling = SequenceSamplingState(added.sampling, added.token_ids, added.num_prompt_tokens,
                                          added.eos_token_ids, added.index),
        .num_prompt_tokens = added.num_prompt_tokens,
        .rope_choice = added.rope_choice,
        .adapter = added.adapter,
        .pooling = std::nullopt,
        .refusal = refusal_of(added, adapters_)};
    if (added.pooling) sequence.pooling.emplace(*added.pooling);
    sequence.samples_on_device = can_sample_on_device_ && DeviceSampler::can_sample(added.sampling);
    sequence.block_tables.resize(num_cache_groups_);
    const bool is_new = sequences_.insert_or_assign(added.sequence, std::move(sequence)).second;
    NVLLM_CHECK(is_new, "a sequence is added once until it is removed");
}

void WorkerSequences::append(const PlanEntry& entry) {
    WorkerSequence& sequence = at(entry.sequence);
    sequence.token_ids.insert(sequence.token_ids.end(), entry.new_token_ids.begin(),
                              entry.new_token_ids.end());
    for (size_t group = 0; group < entry.new_blocks.size(); ++group) {
        std::vector<int32_t>& table = sequence.block_tables[group];
        table.insert(table.end(), entry.new_blocks[group].begin(), entry.new_blocks[group].end());
    }
}

void WorkerSequences::accept(const StepResult& result) {
    for (const SequenceStep& step : result.sequences) {
        WorkerSequence* known = find(step.sequence);
        if (known == nullptr) continue;
        for (const int32_t token : step.token_ids) {
            known->token_ids.push_back(token);
            known->sampling.accept(token);
        }
    }
}

}  // namespace nvllm
