// Fills a snapshot from scheduler and cache.
#include "lib/schedule/snapshot.h"

#include <algorithm>

#include "lib/cache/radix_view.h"

namespace nvllm {
namespace {

// Sequences whose lack of blocks is worked out: those behind them wait for them anyway.
constexpr size_t kMaxExplained = 64;

BlockState state_of(const BlockPool& pool, BlockId block) {
    if (pool.references(block) == 0) {
        return pool.is_cached(block) ? BlockState::cached : BlockState::free;
    }
    return pool.is_cached(block) ? BlockState::published : BlockState::used;
}

GroupSnapshot snapshot_group(const CacheManager& cache, int32_t group, CacheGroupStats stats) {
    const BlockPool& pool = cache.parts().pools[group];
    GroupSnapshot out;
    out.window = cache.shape().window(group);
    out.stats = stats;
    for (BlockId block = 0; block < pool.num_total(); ++block) {
        out.states.push_back(state_of(pool, block));
        out.references.push_back(pool.references(block));
    }
    return out;
}

RunSnapshot snapshot_run(RadixRun&& run) {
    RunSnapshot out;
    out.parent = run.parent;
    out.num_tokens = static_cast<int32_t>(run.tokens.size());
    run.tokens.resize(std::min(run.tokens.size(), kRunTokensShown));
    out.first_tokens = std::move(run.tokens);
    out.has_extra = !run.extra.empty();
    out.first_depth = run.first_depth;
    out.num_contents = run.num_contents;
    out.num_hits = run.num_hits;
    out.last_use = run.last_use;
    out.num_expected = run.num_expected;
    out.references = run.references;
    out.blocks = std::move(run.blocks);
    return out;
}

std::vector<TableSnapshot> snapshot_tables(const SequenceBlocks& cache, int32_t num_groups) {
    std::vector<TableSnapshot> tables;
    for (int32_t group = 0; group < num_groups; ++group) {
        const auto held = cache.table(group).held();
        tables.push_back({cache.table(group).num_given_back(), {held.begin(), held.end()}});
    }
    return tables;
}

SequenceSnapshot snapshot_sequence(const ScheduledSequence& scheduled, int32_t num_groups,
                                   double now_s) {
    const Sequence& sequence = scheduled.sequence;
    SequenceSnapshot out;
    out.id = sequence.id;
    out.request = sequence.request_id;
    out.index = sequence.index;
    out.priority = sequence.priority;
    out.state = sequence.state;
    out.num_prompt_tokens = sequence.num_prompt_tokens;
    out.num_tokens = sequence.num_tokens();
    out.longest_length = sequence.longest_length;
    out.num_computed = sequence.num_computed;
    out.num_in_flight = sequence.num_in_flight;
    out.num_cached_tokens = sequence.num_cached_tokens;
    out.num_preemptions = sequence.num_preemptions;
    out.num_pauses = sequence.num_pauses;
    out.arrival_s = sequence.arrival_s;
    out.state_since_s = sequence.state_since_s;
    out.waited_s = sequence.waited(now_s);
    out.first_scheduled_s = sequence.first_scheduled_s;
    out.first_token_s = sequence.first_token_s;
    out.swapped_out = scheduled.cache.swapped_out();
    out.lease_end_s = scheduled.lease_end_s;
    out.num_published_blocks = scheduled.cache.num_cached_blocks();
    out.tables = snapshot_tables(scheduled.cache, num_groups);
    return out;
}

ConfigSnapshot snapshot_config(const SchedulerConfig& config, const CacheManager& cache,
                               const std::string& eviction) {
    ConfigSnapshot out;
    out.block_size = cache.block_size();
    out.enable_prefix_caching = cache.parts().prefix_cache.enabled();
    out.eviction_policy = eviction;
    out.scheduling_policy = config.policy;
    out.max_num_seqs = config.max_num_seqs;
    out.max_num_batched_tokens = config.max_num_batched_tokens;
    out.max_model_len = config.max_model_len;
    out.pipeline_depth = config.pipeline_depth;
    out.enable_chunked_prefill = config.enable_chunked_prefill;
    out.prefill_chunk_size = config.chunk_size;
    return out;
}

}  // namespace

const char* wait_reason_name(WaitReason reason) {
    switch (reason) {
        case WaitReason::none:
            return "none";
        case WaitReason::next_step:
            return "next_step";
        case WaitReason::no_slot:
            return "no_slot";
        case WaitReason::no_blocks:
            return "no_blocks";
        case WaitReason::budget_spent:
            return "budget_spent";
        case WaitReason::sibling:
            return "sibling";
        case WaitReason::paused:
            return "paused";
        case WaitReason::held:
            return "held";
        case WaitReason::swapped:
            return "swapped";
        case WaitReason::remote_blocks:
            return "remote_blocks";
        case WaitReason::behind_another:
            return "behind_another";
    }
    return "";
}

const char* block_state_name(BlockState state) {
    switch (state) {
        case BlockState::free:
            return "free";
        case BlockState::cached:
            return "cached";
        case BlockState::used:
            return "used";
        case BlockState::published:
            return "published";
    }
    return "";
}

Snapshot Scheduler::snapshot(SnapshotDetail detail, double now_s) const {
    Snapshot out;
    out.now_s = now_s;
    out.tick = cache_.parts().ranking.tick();
    out.scheduler = stats();
    out.cache = cache_.detailed_stats();
    out.config = snapshot_config(config_, cache_, out.cache.eviction);
    for (int32_t group = 0; group < cache_.num_groups(); ++group) {
        out.groups.push_back(
            snapshot_group(cache_, group, out.cache.groups[static_cast<size_t>(group)]));
    }
    out.cache.groups.clear();
    out.has_tree = detail == SnapshotDetail::full;
    if (out.has_tree) {
        for (RadixRun& run : radix_view(cache_).runs) {
            out.runs.push_back(snapshot_run(std::move(run)));
        }
    }
    for (const ScheduledSequence* running : running_) {
        out.sequences.push_back(snapshot_sequence(*running, cache_.num_groups(), now_s));
    }
    for (const ScheduledSequence* waiting : waiting_.all()) {
        out.sequences.push_back(snapshot_sequence(*waiting, cache_.num_groups(), now_s));
    }
    explain_waiting(out);
    return out;
}

// In the order of the queue, by the rules of admit_waiting(): slots, then tokens, then blocks, and
// nobody passes one that waits for blocks.
void Scheduler::explain_waiting(Snapshot& snapshot) const {
    const int32_t num_free = num_free_slots();
    const int32_t headroom = num_growing();
    const ScheduledSequence* blocked = nullptr;
    for (size_t place = 0; place < waiting_.size(); ++place) {
        const ScheduledSequence& scheduled = waiting_[place];
        SequenceSnapshot& row = snapshot.sequences[running_.size() + place];
        if (scheduled.request->is_held) {
            row.wait_reason = WaitReason::held;
        } else if (scheduled.sequence.state == SequenceState::paused) {
            row.wait_reason = WaitReason::paused;
        } else if (scheduled.lease_end_s) {
            row.wait_reason = WaitReason::remote_blocks;
        } else if (!ready(scheduled)) {
            row.wait_reason = WaitReason::sibling;
            row.waits_for = scheduled.request->leader;
        } else if (slots_to_take(scheduled) > num_free) {
            row.wait_reason = WaitReason::no_slot;
        } else if (budget_was_spent_) {
            row.wait_reason = WaitReason::budget_spent;
        } else if (blocked != nullptr) {
            row.wait_reason = WaitReason::behind_another;
            row.waits_for = blocked->sequence.id;
        } else if (scheduled.sequence.state == SequenceState::swapped) {
            row.wait_reason = WaitReason::swapped;
            blocked = &scheduled;
        } else if (place < kMaxExplained) {
            const std::vector<int32_t>& tokens = scheduled.sequence.token_ids;
            const PrefixMatch match = may_skip_prompt(scheduled)
                                          ? cache_.match(waiting_[place].cache, tokens)
                                          : PrefixMatch{};
            for (int32_t group = 0; group < cache_.num_groups(); ++group) {
                row.num_missing_blocks =
                    std::max(row.num_missing_blocks,
                             cache_.num_missing(group, match, scheduled.sequence.num_tokens(),
                                                config_.largest_step(), headroom));
            }
            row.wait_reason =
                row.num_missing_blocks > 0 ? WaitReason::no_blocks : WaitReason::next_step;
            if (row.num_missing_blocks > 0) blocked = &scheduled;
        } else {
            row.wait_reason = WaitReason::next_step;
        }
    }
}

std::vector<std::vector<SequenceId>> block_owners(const Snapshot& snapshot, int32_t group) {
    std::vector<std::vector<SequenceId>> owners(
        snapshot.groups[static_cast<size_t>(group)].states.size());
    for (const SequenceSnapshot& sequence : snapshot.sequences) {
        for (const int32_t block : sequence.tables[static_cast<size_t>(group)].blocks) {
            owners[static_cast<size_t>(block)].push_back(sequence.id);
        }
    }
    return owners;
}

}  // namespace nvllm
