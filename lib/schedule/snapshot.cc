// Fills a snapshot from scheduler and cache.
#include "lib/schedule/snapshot.h"

#include <algorithm>

#include "lib/cache/radix_view.h"
#include "lib/schedule/planning/admission_rules.h"
#include "lib/schedule/scheduler.h"

namespace nvllm {
namespace {

// Sequences whose missing blocks are computed; those behind them wait for them anyway.
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
    out.keeps_states = cache.shape().is_state(group);
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

SequenceSnapshot snapshot_sequence(const ScheduledSequence& scheduled,
                                   const SchedulingContext& context, double now_s) {
    // Tokens that plans in flight compute before they are known.
    const int32_t max_ahead = context.config.pipeline_depth - 1;
    const Sequence& sequence = scheduled.sequence;
    SequenceSnapshot out;
    out.id = sequence.id;
    out.request = sequence.request_id;
    out.index = sequence.index;
    out.priority = sequence.priority;
    out.adapter = scheduled.request->request.adapter.name;
    out.state = sequence.state;
    out.num_prompt_tokens = sequence.num_prompt_tokens;
    out.num_tokens = sequence.num_tokens();
    out.longest_length = sequence.longest_length;
    out.num_computed = sequence.num_computed;
    // The draft tokens in flight are not tokens of the sequence yet.
    out.num_in_flight =
        std::min(sequence.num_in_flight, sequence.num_tokens() + max_ahead - sequence.num_computed);
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
    out.tables = snapshot_tables(scheduled.cache, context.cache.num_groups());
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
        case WaitReason::other_sequence:
            return "sibling";
        case WaitReason::paused:
            return "paused";
        case WaitReason::slow_client:
            return "held";
        case WaitReason::swapped:
            return "swapped";
        case WaitReason::remote_blocks:
            return "remote_blocks";
        case WaitReason::behind_another:
            return "behind_another";
        case WaitReason::disk_blocks:
            return "disk_blocks";
        case WaitReason::adapter:
            return "adapter";
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

namespace {

// Why each waiting sequence waits, by the rules of Admission: slots, then tokens, then blocks. No
// sequence passes one that waits for blocks.
class WaitExplanation {
  public:
    WaitExplanation(const SchedulingContext& context, const RunningSet& running,
                    const WaitingQueue& waiting, bool budget_was_spent)
        : context_(context),
          waiting_(waiting),
          budget_was_spent_(budget_was_spent),
          num_free_(running.num_free_slots()),
          headroom_(num_growing(context, running, waiting)) {}

    // Fills the row of the sequence with this index in the queue. REQUIRES: called in the order of
    // the queue.
    void explain(size_t index, SequenceSnapshot& row) {
        const ScheduledSequence& scheduled = waiting_[index];
        row.wait_reason = reason(index, scheduled, row);
        if (row.wait_reason == WaitReason::other_sequence) {
            row.waits_for = scheduled.request->prompt_sequence;
        } else if (row.wait_reason == WaitReason::behind_another) {
            row.waits_for = blocked_->sequence.id;
        } else if (row.wait_reason == WaitReason::swapped ||
                   row.wait_reason == WaitReason::no_blocks) {
            blocked_ = &scheduled;
        }
    }

  private:
    WaitReason reason(size_t index, const ScheduledSequence& scheduled, SequenceSnapshot& row) {
        if (scheduled.request->is_paused_for_client) return WaitReason::slow_client;
        if (!context_.adapters.may_run(scheduled)) return WaitReason::adapter;
        if (context_.cache.is_reading(scheduled.cache)) return WaitReason::disk_blocks;
        if (scheduled.sequence.state == SequenceState::paused) return WaitReason::paused;
        if (scheduled.lease_end_s) return WaitReason::remote_blocks;
        if (!is_ready(scheduled, context_)) return WaitReason::other_sequence;
        if (slots_to_take(scheduled) > num_free_) return WaitReason::no_slot;
        if (budget_was_spent_) return WaitReason::budget_spent;
        if (blocked_ != nullptr) return WaitReason::behind_another;
        if (scheduled.sequence.state == SequenceState::swapped) return WaitReason::swapped;
        if (index >= kMaxExplained) return WaitReason::next_step;
        row.num_missing_blocks = num_missing_blocks(waiting_[index]);
        return row.num_missing_blocks > 0 ? WaitReason::no_blocks : WaitReason::next_step;
    }

    int32_t num_missing_blocks(ScheduledSequence& scheduled) const {
        CacheManager& cache = context_.cache;
        const Sequence& sequence = scheduled.sequence;
        const PrefixMatch match = may_skip_prompt(scheduled)
                                      ? cache.match(scheduled.cache, sequence.token_ids)
                                      : PrefixMatch{};
        int32_t missing = 0;
        for (int32_t group = 0; group < cache.num_groups(); ++group) {
            missing =
                std::max(missing, cache.num_missing(group, match, sequence.num_tokens(),
                                                    context_.config.largest_step(), headroom_));
        }
        return missing;
    }

    const SchedulingContext& context_;
    const WaitingQueue& waiting_;
    bool budget_was_spent_;
    int32_t num_free_;
    int32_t headroom_;
    const ScheduledSequence* blocked_ = nullptr;  // the first one that waits for blocks
};

}  // namespace

Snapshot Scheduler::snapshot(SnapshotDetail detail, double now_s) const {
    const CacheManager& cache = context_.cache;
    Snapshot out;
    out.now_s = now_s;
    out.tick = cache.parts().ranking.tick();
    out.scheduler = stats();
    out.cache = cache.detailed_stats();
    out.config = snapshot_config(context_.config, cache, out.cache.eviction);
    for (int32_t group = 0; group < cache.num_groups(); ++group) {
        out.groups.push_back(
            snapshot_group(cache, group, out.cache.groups[static_cast<size_t>(group)]));
    }
    out.cache.groups.clear();
    out.has_tree = detail == SnapshotDetail::full;
    if (out.has_tree) {
        for (RadixRun& run : radix_view(cache).runs) {
            out.runs.push_back(snapshot_run(std::move(run)));
        }
    }
    for (const ScheduledSequence* running : running_.all()) {
        out.sequences.push_back(snapshot_sequence(*running, context_, now_s));
    }
    WaitExplanation explanation(context_, running_, waiting_, composer_.budget_was_spent());
    for (size_t i = 0; i < waiting_.size(); ++i) {
        out.sequences.push_back(snapshot_sequence(waiting_[i], context_, now_s));
        explanation.explain(i, out.sequences.back());
    }
    out.adapters = context_.adapters.states();
    return out;
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
