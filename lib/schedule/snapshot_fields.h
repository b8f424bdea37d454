// The fields of a snapshot, once for writing and once for reading: `archive(name, member)` for
// each.
#pragma once

#include "lib/schedule/snapshot.h"

namespace nvllm {

template <typename Archive>
void fields(Archive& archive, ConfigSnapshot& config) {
    archive("model", config.model);
    archive("block_size", config.block_size);
    archive("enable_prefix_caching", config.enable_prefix_caching);
    archive("eviction_policy", config.eviction_policy);
    archive("scheduling_policy", config.scheduling_policy);
    archive("max_num_seqs", config.max_num_seqs);
    archive("max_num_batched_tokens", config.max_num_batched_tokens);
    archive("max_model_len", config.max_model_len);
    archive("pipeline_depth", config.pipeline_depth);
    archive("enable_chunked_prefill", config.enable_chunked_prefill);
    archive("prefill_chunk_size", config.prefill_chunk_size);
}

template <typename Archive>
void fields(Archive& archive, AdapterStats& stats) {
    archive("num_hot", stats.num_hot);
    archive("num_warm", stats.num_warm);
    archive("arrivals_hot", stats.arrivals.hot);
    archive("arrivals_warm", stats.arrivals.warm);
    archive("arrivals_cold", stats.arrivals.cold);
    archive("loads", stats.loads);
    archive("loaded_bytes", stats.loaded_bytes);
    archive("load_ms", stats.load_ms);
    archive("places", stats.places);
    archive("placed_bytes", stats.placed_bytes);
    archive("place_ms", stats.place_ms);
    archive("evictions", stats.evictions);
    archive("failures", stats.failures);
}

template <typename Archive>
void fields(Archive& archive, AdapterState& adapter) {
    archive("name", adapter.name);
    archive("folder", adapter.folder);
    archive("tier", adapter.tier);
    archive("slot", adapter.slot);
    archive("num_requests", adapter.num_requests);
    archive("num_running", adapter.num_running);
    archive("bytes", adapter.bytes);
}

template <typename Archive>
void fields(Archive& archive, SchedulerStats& stats) {
    archive("num_running", stats.num_running);
    archive("num_waiting", stats.num_waiting);
    archive("num_paused", stats.num_paused);
    archive("num_swapped", stats.num_swapped);
    archive("num_awaiting", stats.num_awaiting);
    archive("token_budget", stats.token_budget);
    archive("steps", stats.steps);
    archive("scheduled_tokens", stats.scheduled_tokens);
    archive("prefill_tokens", stats.prefill_tokens);
    archive("filled_slots", stats.filled_slots);
    archive("preemptions", stats.preemptions);
    archive("swaps_out", stats.swaps_out);
    archive("swaps_in", stats.swaps_in);
    archive("recomputed_tokens", stats.recomputed_tokens);
    archive("pauses", stats.pauses);
    archive("turns_of_oldest", stats.aged_admissions);
    archive("remote_waits", stats.remote_waits);
    archive("remote_tokens", stats.remote_tokens);
    archive("remote_expiries", stats.remote_expiries);
    archive("worker_resets", stats.worker_resets);
    archive("stalled_steps", stats.stalled_steps);
    archive("adapters", stats.adapters);
}

template <typename Archive>
void fields(Archive& archive, BlockCounts& counts) {
    archive("total", counts.total);
    archive("used", counts.used);
    archive("cached", counts.cached);
    archive("free", counts.free);
    archive("evictions", counts.evictions);
}

template <typename Archive>
void fields(Archive& archive, CacheGroupStats& stats) {
    archive("blocks", stats.blocks);
    archive("utilisation", stats.utilisation);
    archive("references", stats.references);
    archive("sharing", stats.sharing);
    archive("waste_slots", stats.waste_slots);
    archive("waste", stats.waste);
    archive("fragmentation", stats.fragmentation);
    archive("longest_unused_run", stats.longest_unused_run);
    archive("host_total", stats.host_total);
    archive("host_used", stats.host_used);
    archive("host_cached", stats.host_cached);
}

template <typename Archive>
void fields(Archive& archive, CompactionCounts& counts) {
    archive("compactions", counts.compactions);
    archive("moved_blocks", counts.moved_blocks);
    archive("dropped_blocks", counts.dropped_blocks);
}

template <typename Archive>
void fields(Archive& archive, SwapCounts& counts) {
    archive("blocks_out", counts.blocks_out);
    archive("blocks_in", counts.blocks_in);
    archive("blocks_found", counts.blocks_found);
    archive("sequences_out", counts.sequences_out);
    archive("sequences_in", counts.sequences_in);
}

template <typename Archive>
void fields(Archive& archive, TierStats& stats) {
    archive("blocks_held", stats.blocks_held);
    archive("blocks_kept", stats.blocks_kept);
    archive("blocks_back", stats.blocks_back);
    archive("blocks_dropped", stats.blocks_dropped);
    archive("hit_tokens", stats.hit_tokens);
}

template <typename Archive>
void fields(Archive& archive, DetailedCacheStats& stats) {
    archive("total", stats.total);
    archive("eviction", stats.eviction);
    archive("hit_rate", stats.hit_rate);
    archive("queried_tokens", stats.queried_tokens);
    archive("hit_tokens", stats.hit_tokens);
    archive("num_contents", stats.num_contents);
    archive("num_private_copies", stats.num_private_copies);
    archive("num_duplicates_freed", stats.num_duplicates_freed);
    archive("compaction", stats.compaction);
    archive("swap", stats.swap);
    archive("host_tier", stats.host_tier);
    archive("disk_tier", stats.disk_tier);
}

template <typename Archive>
void fields(Archive& archive, GroupSnapshot& group) {
    archive("window", group.window);
    archive("keeps_states", group.keeps_states);
    archive("figures", group.stats);
    archive("states", group.states);
    archive("references", group.references);
}

template <typename Archive>
void fields(Archive& archive, TableSnapshot& table) {
    archive("num_given_back", table.num_given_back);
    archive("blocks", table.blocks);
}

template <typename Archive>
void fields(Archive& archive, SequenceSnapshot& sequence) {
    archive("id", sequence.id);
    archive("request", sequence.request);
    archive("index", sequence.index);
    archive("priority", sequence.priority);
    archive("adapter", sequence.adapter);
    archive("state", sequence.state);
    archive("wait_reason", sequence.wait_reason);
    archive("num_lacking_blocks", sequence.num_missing_blocks);
    archive("waits_for", sequence.waits_for);
    archive("num_prompt_tokens", sequence.num_prompt_tokens);
    archive("num_tokens", sequence.num_tokens);
    archive("longest_length", sequence.longest_length);
    archive("num_computed", sequence.num_computed);
    archive("num_in_flight", sequence.num_in_flight);
    archive("num_cached_tokens", sequence.num_cached_tokens);
    archive("num_preemptions", sequence.num_preemptions);
    archive("num_pauses", sequence.num_pauses);
    archive("arrival_s", sequence.arrival_s);
    archive("state_since_s", sequence.state_since_s);
    archive("waited_s", sequence.waited_s);
    archive("first_scheduled_s", sequence.first_scheduled_s);
    archive("first_token_s", sequence.first_token_s);
    archive("swapped_out", sequence.swapped_out);
    archive("lease_end_s", sequence.lease_end_s);
    archive("num_published_blocks", sequence.num_published_blocks);
    archive("tables", sequence.tables);
}

template <typename Archive>
void fields(Archive& archive, RunSnapshot& run) {
    archive("parent", run.parent);
    archive("num_tokens", run.num_tokens);
    archive("first_tokens", run.first_tokens);
    archive("has_extra", run.has_extra);
    archive("first_depth", run.first_depth);
    archive("num_contents", run.num_contents);
    archive("num_hits", run.num_hits);
    archive("last_use", run.last_use);
    archive("num_expected", run.num_expected);
    archive("references", run.references);
    archive("blocks", run.blocks);
}

template <typename Archive>
void fields(Archive& archive, Snapshot& snapshot) {
    archive("now_s", snapshot.now_s);
    archive("tick", snapshot.tick);
    archive("config", snapshot.config);
    archive("scheduler", snapshot.scheduler);
    archive("cache", snapshot.cache);
    archive("groups", snapshot.groups);
    archive("has_tree", snapshot.has_tree);
    archive("runs", snapshot.runs);
    archive("sequences", snapshot.sequences);
    archive("adapters", snapshot.adapters);
}

}  // namespace nvllm
