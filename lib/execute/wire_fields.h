// The fields of all messages, once for writing and once for reading: `archive(member, ...)`.
//
// Each list begins with a structured binding of its struct: a member that is missing here does not
// compile. Sampling parameters have their own list (lib/request/sampling_fields.h). A new enum
// value needs a change of last_value().
#pragma once

#include "lib/execute/wire.h"
#include "lib/request/sampling_fields.h"

namespace nvllm {

constexpr DType last_value(DType) { return DType::f8_e5m2; }
constexpr LoadFormat last_value(LoadFormat) { return LoadFormat::dummy; }
constexpr EarlyStopping last_value(EarlyStopping) { return EarlyStopping::never; }
constexpr MemoryPolicy last_value(MemoryPolicy) { return MemoryPolicy::preferred; }
constexpr NumaMode last_value(NumaMode) { return NumaMode::isolate; }
constexpr OutputKind last_value(OutputKind) { return OutputKind::pooled; }
constexpr PoolingKind last_value(PoolingKind) { return PoolingKind::cls; }
constexpr PooledValues last_value(PooledValues) { return PooledValues::tokens; }
constexpr ScoreFunction last_value(ScoreFunction) { return ScoreFunction::softmax; }
constexpr ErrorKind last_value(ErrorKind) { return ErrorKind::bad_config; }
constexpr AuxLayerNumbering last_value(AuxLayerNumbering) {
    return AuxLayerNumbering::behind_layer;
}
constexpr AdapterAction last_value(AdapterAction) { return AdapterAction::clear; }
constexpr AdapterStage last_value(AdapterStage) { return AdapterStage::failed; }
constexpr CacheLayout::Kind last_value(CacheLayout::Kind) { return CacheLayout::Kind::state; }

template <typename Archive>
void fields(Archive& archive, DeviceChoice& device) {
    auto& [module_path, index] = device;
    archive(module_path, index);
}

template <typename Archive>
void fields(Archive& archive, CacheLayout& group) {
    auto& [layers, kv_heads, head_dim, window, kind, state_bytes, value_dim] = group;
    archive(layers, kv_heads, head_dim, window, kind, state_bytes, value_dim);
}

template <typename Archive>
void fields(Archive& archive, Shard& shard) {
    auto& [rank, ranks] = shard;
    archive(rank, ranks);
}

template <typename Archive>
void fields(Archive& archive, SlotsOfBlock& slots) {
    auto& [block, experts] = slots;
    archive(block, experts);
}

template <typename Archive>
void fields(Archive& archive, ExpertOptions& options) {
    auto& [slots, capacity_factor, are_counted] = options;
    archive(slots, capacity_factor, are_counted);
}

template <typename Archive>
void fields(Archive& archive, ModelPart& part) {
    auto& [tensor, experts, expert_options, first_block, num_blocks, has_embedding, has_head] =
        part;
    archive(tensor, experts, expert_options, first_block, num_blocks, has_embedding, has_head);
}

template <typename Archive>
void fields(Archive& archive, ParallelSizes& sizes) {
    auto& [tensor, pipeline, expert_parallel] = sizes;
    archive(tensor, pipeline, expert_parallel);
}

template <typename Archive>
void fields(Archive& archive, ReplicaPlace& place) {
    auto& [index, count] = place;
    archive(index, count);
}

template <typename Archive>
void fields(Archive& archive, RankSetup& setup) {
    auto& [sizes, rank, collectives, sharing, group_ids] = setup;
    archive(sizes, rank, collectives, sharing, group_ids);
}

template <typename Archive>
void fields(Archive& archive, PipelineStage& stage) {
    auto& [first_block, num_blocks] = stage;
    archive(first_block, num_blocks);
}

template <typename Archive>
void fields(Archive& archive, ModelLoadOptions& options) {
    auto& [directory, dtype, refuses_quantized, load_format, seed, max_model_len, threads,
           num_threads, prefetch, device, repack_cache, checkpoint, part, groups, hook,
           lora_targets] = options;
    // Threads, open files, and who takes or lists linears are each process's own.
    archive(directory, dtype, refuses_quantized, load_format, seed, max_model_len, num_threads,
            prefetch, device, repack_cache, part, groups);
}

template <typename Archive>
void fields(Archive& archive, CpuPlacement& placement) {
    auto& [threads, memory, memory_nodes, numa, reason] = placement;
    archive(threads, memory, memory_nodes, numa, reason);
}

template <typename Archive>
void fields(Archive& archive, PlacementOptions& options) {
    auto& [num_threads, mask, numa] = options;
    archive(num_threads, mask, numa);
}

template <typename Archive>
void fields(Archive& archive, AdapterLimits& limits) {
    auto& [max_loras, max_rank] = limits;
    archive(max_loras, max_rank);
}

template <typename Archive>
void fields(Archive& archive, WorkerConfig& config) {
    auto& [block_size, num_blocks, num_host_blocks, max_num_batched_tokens, max_num_seqs, kv_dtype,
           activations, batch_invariant, max_graph_rows, num_draft_states, most_drafts,
           reports_expert_load, adapters, disk_folder] = config;
    archive(block_size, num_blocks, num_host_blocks, max_num_batched_tokens, max_num_seqs, kv_dtype,
            activations, batch_invariant, max_graph_rows, num_draft_states, most_drafts,
            reports_expert_load, adapters, disk_folder);
}

template <typename Archive>
void fields(Archive& archive, DraftReading& reading) {
    auto& [aux_layers, masks_first_embedding] = reading;
    archive(aux_layers, masks_first_embedding);
}

template <typename Archive>
void fields(Archive& archive, DraftShape& shape) {
    auto& [depth, width] = shape;
    archive(depth, width);
}

template <typename Archive>
void fields(Archive& archive, ProposerSetup& setup) {
    auto& [method, model, target_directory, shape, reading] = setup;
    archive(method, model, target_directory, shape, reading);
}

template <typename Archive>
void fields(Archive& archive, WorkerSetup& setup) {
    auto& [model, placement, placement_options, worker, kv_groups, vocab_size, proposer,
           draft_kv_groups, ranks, replica, stages, devices] = setup;
    archive(model, placement, placement_options, worker, kv_groups, vocab_size, proposer,
            draft_kv_groups, ranks, replica, stages, devices);
}

template <typename Archive>
void fields(Archive& archive, WorkerReady& ready) {
    auto& [weights_ms, worker_ms, weight_bytes, read_bytes, kv_bytes] = ready;
    archive(weights_ms, worker_ms, weight_bytes, read_bytes, kv_bytes);
}

template <typename Archive>
void fields(Archive& archive, EndBoost& boost) {
    auto& [start, factor] = boost;
    archive(start, factor);
}

template <typename Archive>
void fields(Archive& archive, SamplingParams& sampling) {
    visit_sampling_fields([&](const auto& field) { archive(sampling.*field.member); });
}

template <typename Archive>
void fields(Archive& archive, PoolingParams& pooling) {
    auto& [kind, normalize, dimensions, values, function, token_ids, second_text] = pooling;
    archive(kind, normalize, dimensions, values, function, token_ids, second_text);
}

template <typename Archive>
void fields(Archive& archive, AddedSequence& added) {
    auto& [sequence, token_ids, num_prompt_tokens, sampling, pooling, eos_token_ids, index,
           rope_choice, adapter, block_tables] = added;
    archive(sequence, token_ids, num_prompt_tokens, sampling, pooling, eos_token_ids, index,
            rope_choice, adapter, block_tables);
}

template <typename Archive>
void fields(Archive& archive, PlanEntry& entry) {
    auto& [sequence, first, count, output, num_candidates, new_token_ids, new_blocks] = entry;
    archive(sequence, first, count, output, num_candidates, new_token_ids, new_blocks);
}

template <typename Archive>
void fields(Archive& archive, BlockMove& move) {
    auto& [group, from, to] = move;
    archive(group, from, to);
}

template <typename Archive>
void fields(Archive& archive, TableChange& change) {
    auto& [owner, group, index, block] = change;
    archive(owner, group, index, block);
}

template <typename Archive>
void fields(Archive& archive, SwapMove& move) {
    auto& [group, device_block, host_block, table_index] = move;
    archive(group, device_block, host_block, table_index);
}

template <typename Archive>
void fields(Archive& archive, DraftTokens& drafts) {
    auto& [token_ids, parents] = drafts;
    archive(token_ids, parents);
}

template <typename Archive>
void fields(Archive& archive, EntryExtras& extras) {
    auto& [entry, drafts, token_mask, num_next_drafts] = extras;
    archive(entry, drafts, token_mask, num_next_drafts);
}

template <typename Archive>
void fields(Archive& archive, AdapterChange& change) {
    auto& [action, adapter, slot, folder, digest] = change;
    archive(action, adapter, slot, folder, digest);
}

template <typename Archive>
void fields(Archive& archive, DiskPlace& place) {
    auto& [segment, offset] = place;
    archive(segment, offset);
}

template <typename Archive>
void fields(Archive& archive, DiskMove& move) {
    auto& [number, group, host_block, place, seed] = move;
    archive(number, group, host_block, place, seed);
}

template <typename Archive>
void fields(Archive& archive, DiskEvent& event) {
    auto& [is_read, number, succeeded] = event;
    archive(is_read, number, succeeded);
}

template <typename Archive>
void fields(Archive& archive, BatchPlan& plan) {
    auto& [number, removed, added, moves, table_changes, num_blocks, swaps_out, copies, swaps_in,
           entries, extras, adapters, disk_reads, disk_writes, awaits_disk, awaits_adapters] = plan;
    archive(number, removed, added, moves, table_changes, num_blocks, swaps_out, copies, swaps_in,
            entries, extras, adapters, disk_reads, disk_writes, awaits_disk, awaits_adapters);
}

template <typename Archive>
void fields(Archive& archive, TokenLogprob& token) {
    auto& [token_id, logprob] = token;
    archive(token_id, logprob);
}

template <typename Archive>
void fields(Archive& archive, SampledLogprobs& sampled) {
    auto& [chosen, rank, top] = sampled;
    archive(chosen, rank, top);
}

template <typename Archive>
void fields(Archive& archive, Fault& fault) {
    auto& [kind, message, field, code] = fault;
    archive(kind, message, field, code);
}

template <typename Archive>
void fields(Archive& archive, SequenceStep& step) {
    auto& [sequence, token_ids, logprobs, prompt_logprobs, first_prompt_logprob, candidates,
           embedding, fault] = step;
    archive(sequence, token_ids, logprobs, prompt_logprobs, first_prompt_logprob, candidates,
            embedding, fault);
}

template <typename Archive>
void fields(Archive& archive, DeviceCounts& counts) {
    auto& [sampled_rows, graph_captures, graph_launches] = counts;
    archive(sampled_rows, graph_captures, graph_launches);
}

template <typename Archive>
void fields(Archive& archive, StepExtras& extras) {
    auto& [entry, accepted_rows, next_drafts] = extras;
    archive(entry, accepted_rows, next_drafts);
}

template <typename Archive>
void fields(Archive& archive, ExpertLoad& load) {
    auto& [block, tokens] = load;
    archive(block, tokens);
}

template <typename Archive>
void fields(Archive& archive, AdapterEvent& event) {
    auto& [adapter, stage, bytes, ms, fault] = event;
    archive(adapter, stage, bytes, ms, fault);
}

template <typename Archive>
void fields(Archive& archive, StepResult& result) {
    auto& [plan_number, sequences, extras, swapped_bytes, swap_ms, draft_ms, num_ranks, busy_ms,
           rank_bytes, dropped_experts, expert_load, device, adapters, disk] = result;
    archive(plan_number, sequences, extras, swapped_bytes, swap_ms, draft_ms, num_ranks, busy_ms,
            rank_bytes, dropped_experts, expert_load, device, adapters, disk);
}

template <typename Archive>
void fields(Archive&, ForgetSequences&) {}

template <typename Archive>
void fields(Archive&, StepOfOthers&) {}

template <typename Archive>
void fields(Archive& archive, RankProbe& probe) {
    auto& [ranks, placement, placement_options, dtype, weight_bytes] = probe;
    archive(ranks, placement, placement_options, dtype, weight_bytes);
}

template <typename Archive>
void fields(Archive& archive, SumSample& sample) {
    auto& [bytes, seconds] = sample;
    archive(bytes, seconds);
}

template <typename Archive>
void fields(Archive& archive, RankRates& rates) {
    auto& [read_bytes_per_s, operations_per_s, memory_bytes, sums] = rates;
    archive(read_bytes_per_s, operations_per_s, memory_bytes, sums);
}

template <typename Archive>
void fields(Archive& archive, WorkerFault& fault) {
    auto& [kind, message, out_of_memory] = fault;
    archive(kind, message, out_of_memory);
}

}  // namespace nvllm
