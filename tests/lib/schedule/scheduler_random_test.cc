// Long random runs of the scheduler: every policy, depth, chunking and cache layout, with cancels,
// faults, lost workers, and drafts of a proposer or of the worker.
//
// The first tokens of some sequences come from a remote source, in time, late or never.
//
// Checked throughout: no read of a wrong slot and no position computed twice between preemptions,
// but for rejected drafts (the fake worker counts both); limits of tokens and slots; blocks are
// conserved; admission in the order of arrival; the most senior running sequence is never
// preempted. In the end every output is the one of an undisturbed run without drafts.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/schedule/snapshot.h"
#include "tests/lib/quantize/folder.h"
#include "tests/lib/schedule/random_drafts.h"
#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

struct Layout {
    const char* name;
    std::vector<CacheGroupConfig> groups;
    bool prefix_caching;
    bool chunked;
    int32_t chunk_size;
    int32_t mixed_prefill_tokens;
};

constexpr int32_t kMaxModelLen = 48;
constexpr int32_t kBlockSize = 4;
constexpr int32_t kBatchedTokens = 48;

std::vector<Layout> layouts() {
    // Tight: 12 blocks hold one sequence of full length.
    return {
        {"tight", {{12, 0}}, true, true, 0, 0},
        {"tight, no prefix caching", {{12, 0}}, false, true, 0, 3},
        {"roomy", {{90, 0}}, true, true, 0, 1},
        {"small chunks", {{26, 0}}, true, true, 5, 7},
        {"whole prompts", {{26, 0}}, true, false, 0, 3},
        {"sliding and full", {{26, 0}, {16, 7}}, true, true, 8, 0},
        {"sliding only", {{14, 6}}, true, true, 8, 4},
        {"sliding, tight", {{4, 6}}, true, true, 8, 2},
        {"states", {{26, 0}, {5, 0, 0, CacheGroupKind::state}}, true, true, 0, 3},
        {"states, few slots", {{60, 0}, {2, 0, 0, CacheGroupKind::state}}, true, true, 8, 0},
        {"states, not kept", {{26, 0}, {4, 0, 0, CacheGroupKind::state}}, false, true, 5, 0},
    };
}

enum class Drafts : uint8_t { none, of_proposer, of_worker };

struct Setting {
    Layout layout;
    std::string policy;
    std::string eviction;
    PreemptionMode mode = PreemptionMode::automatic;
    int32_t depth = 1;
    bool ahead = false;  // plans do not wait for the tokens of most sequences
    Drafts drafts = Drafts::none;
    int32_t max_loras = 0;  // of three times as many adapters; 0: there are none
    bool keeps_evicted = false;
    bool has_disk = false;
};

struct RandomLoad {
    RandomLoad(const Setting& setting, unsigned seed)
        : random(seed),
          proposer(TokenRule{}, seed, 4, 30),
          simulation(scheduler_config(setting), cache_config(setting, folder), TokenRule{},
                     setting.drafts == Drafts::of_proposer ? &proposer : nullptr) {
        if (setting.drafts == Drafts::of_worker) {
            simulation.worker.propose = [this](std::span<const int32_t> tokens, int32_t index) {
                return proposer.draft(tokens, index);
            };
        }
        simulation.worker.files.failures = seed % 2 == 0 ? 9 : 0;
        max_loras = setting.max_loras;
        simulation.worker.adapters.limits = {max_loras, max_loras + 1};
        simulation.worker.adapters.delays = {0, 2, 0, 1, 4};
        // Others pass a sequence that waits for its adapter, or for files.
        has_limited = max_loras > 0 || setting.has_disk;
        for (const SchedulingPolicy& row : scheduling_policies()) {
            if (row.name == setting.policy) policy = &row;
        }
        for (const CacheGroupConfig& group : setting.layout.groups) {
            full_sizes.push_back(group.num_blocks);
        }
    }

    static SchedulerConfig scheduler_config(const Setting& setting) {
        SchedulerConfig config;
        config.max_num_seqs = 6;
        config.max_num_batched_tokens = kBatchedTokens;
        config.max_model_len = kMaxModelLen;
        config.pipeline_depth = setting.depth;
        if (setting.ahead) {
            config.may_plan_ahead = [](const SamplingParams& params) {
                return *params.seed % 8 != 0;
            };
        }
        config.enable_chunked_prefill = setting.layout.chunked;
        config.chunk_size = setting.layout.chunk_size;
        config.mixed_prefill_tokens = setting.layout.mixed_prefill_tokens;
        config.policy = setting.policy;
        config.preemption_mode = setting.mode;
        // A swap costs as much as computing some of the lengths that occur.
        config.defrag_threshold = setting.depth == 1 ? 0.3 : 0.0;
        config.adapters = {setting.max_loras, setting.max_loras + 1};
        config.block_bytes.assign(setting.layout.groups.size(), uint64_t{3} << 20);
        return config;
    }
    static CacheConfig cache_config(const Setting& setting, const test::Folder& folder) {
        std::vector<CacheGroupConfig> groups = setting.layout.groups;
        // Not enough for all that may be swapped out at once.
        for (CacheGroupConfig& group : groups) group.num_host_blocks = 20;
        CacheConfig config{.block_size = kBlockSize,
                           .groups = groups,
                           .enable_prefix_caching = setting.layout.prefix_caching,
                           .hash_key = HashKey{1, 2},
                           .eviction = setting.eviction,
                           .keeps_evicted = setting.keeps_evicted || setting.has_disk};
        if (!setting.has_disk) return config;
        config.disk_store = std::make_shared<DiskStore>(
            DiskStoreConfig{folder.path(), "random", uint64_t{64} << 20});
        config.disk_blocks.assign(groups.size(), {4096, 64});
        return config;
    }

    int draw(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

    void add_request() {
        // Few different beginnings, so that prefixes are shared often.
        std::vector<int32_t> prompt;
        const int beginning = 1 + draw(3);
        const int length = 1 + draw(draw(2) == 0 ? 12 : kMaxModelLen - 2);
        for (int i = 0; i < length; ++i) prompt.push_back(draw(15) == 0 ? 4 + draw(3) : beginning);
        Request request =
            make_request(next_request++, std::move(prompt), 1 + draw(kMaxModelLen - length));
        request.sampling.n = draw(6) == 0 ? 3 : 1;
        request.sampling.min_tokens = draw(3) == 0 ? 1 + draw(*request.sampling.max_tokens) : 0;
        request.cache_salt = draw(8) == 0 ? "salt" : "";
        request.priority = draw(3);
        if (max_loras > 0 && draw(4) != 0) {
            const int32_t id = 1 + draw(draw(2) == 0 ? 2 : 3 * max_loras);
            request.adapter = {id, "", std::to_string(id), "folder", 0};
        }
        if (draw(5) == 0) {
            request.sampling.n = 1;
            request.pooling.emplace();
            request.pooling->kind = draw(2) == 0 ? PoolingKind::last : PoolingKind::mean;
        }
        const std::vector<SequenceId> ids = simulation.add(request);
        wrong += ids.empty();
        num_added += static_cast<int64_t>(ids.size());
    }

    const Sequence* most_senior() const {
        const Sequence* senior = nullptr;
        for (const auto& [id, request] : simulation.requests) {
            const Sequence* sequence = simulation.scheduler.find(id);
            if (sequence == nullptr || sequence->state != SequenceState::running) continue;
            if (senior == nullptr || ranks_before(*policy, *sequence, *senior, now())) {
                senior = sequence;
            }
        }
        return senior;
    }

    // The time of the next call.
    double now() const { return simulation.now_s + 1.0; }

    // One call during which the running sequence that ranks first must not be preempted, unless
    // its time slice was over.
    template <typename Call>
    void watched(Call call) {
        const Sequence* senior = most_senior();
        const Sequence before = senior == nullptr ? Sequence{} : *senior;
        call();
        const Sequence* after = simulation.scheduler.find(before.id);
        wrong += after != nullptr && after->num_preemptions != before.num_preemptions &&
                 after->num_pauses == before.num_pauses;
    }

    void plan() {
        bool planned = false;
        const int64_t preemptions = simulation.scheduler.stats().preemptions;
        watched([&] { planned = simulation.plan(); });
        if (!planned) return;
        const bool preempted = simulation.scheduler.stats().preemptions > preemptions;
        for (const AddedSequence& added : simulation.last_plan.added) {
            const Sequence& sequence = *simulation.scheduler.find(added.sequence);
            // A sequence from a remote source had its blocks already. A sequence that is paused
            // for its client loses its blocks to admitted ones.
            wrong += preempted && !lent.contains(added.sequence) && held.empty();
            if (policy->name != std::string("fcfs") || has_limited) continue;
            if (sequence.index != 0 || sequence.num_preemptions > 0) continue;
            // Others pass it while it waits for remote blocks.
            if (lent.contains(added.sequence)) continue;
            wrong += sequence.id < last_admitted;
            last_admitted = sequence.id;
        }
    }

    void commit() {
        // A plan that only moves blocks has no sequence that could fail.
        const bool has_sequences =
            !simulation.results.empty() && !simulation.results.front().sequences.empty();
        if (has_sequences && draw(60) == 0) {
            StepResult& result = simulation.results.front();
            SequenceStep& step = result.sequences[static_cast<size_t>(
                draw(static_cast<int>(result.sequences.size())))];
            step.fault = Fault{ErrorKind::internal, "on purpose"};
            step.token_ids.clear();
        }
        watched([&] { simulation.commit(); });
    }

    void cancel_something() {
        const auto id = static_cast<SequenceId>(1 + draw(static_cast<int>(num_added) + 1));
        const std::vector<SequenceId> done =
            draw(2) == 0 ? simulation.cancel_sequence(id)
                         : simulation.scheduler.cancel(static_cast<RequestId>(id));
        for (const SequenceId sequence : done) simulation.check_finished(sequence);
    }

    void lose_worker() {
        for (const SequenceId id : simulation.scheduler.reset_worker())
            simulation.check_finished(id);
        simulation.results.clear();
        simulation.worker.restart();
    }

    // One sequence alone, which may have finished; or a number of tokens; or no limit.
    void limit_plans() {
        PlanLimits limits;
        if (draw(2) == 0) limits.alone = 1 + draw(static_cast<int>(num_added) + 1);
        if (draw(2) == 0) limits.max_tokens = 1 + draw(40);
        simulation.limits = limits;
        has_limited = true;
    }

    // Perhaps a request that has finished.
    void pause_something() {
        const auto id = static_cast<RequestId>(1 + draw(static_cast<int>(next_request)));
        simulation.scheduler.backpressure().pause(id);
        held.insert(id);
        has_limited = true;
    }

    void resume_something() {
        if (held.empty()) return;
        simulation.scheduler.backpressure().resume(
            *std::next(held.begin(), draw(static_cast<int>(held.size()))));
    }

    // To somewhere between what the longest sequence needs and what there was at first.
    void resize_cache() {
        std::vector<int32_t> sizes;
        for (int32_t group = 0; group < simulation.cache.num_groups(); ++group) {
            const int32_t most = full_sizes[static_cast<size_t>(group)];
            const int32_t fewest =
                std::min(most, simulation.cache.shape().max_blocks(
                                   group, kMaxModelLen, simulation.config.largest_step()));
            sizes.push_back(fewest + draw(most - fewest + 1));
        }
        num_resizes += simulation.scheduler.resize_cache(sizes, simulation.now_s);
    }

    // Some of a waiting sequence's tokens are to come from a remote source.
    void await_blocks() {
        const auto sequences =
            simulation.scheduler.snapshot(SnapshotDetail::without_tree, now()).sequences;
        if (sequences.empty()) return;
        const SequenceSnapshot& chosen =
            sequences[static_cast<size_t>(draw(static_cast<int>(sequences.size())))];
        const std::optional<RemoteLease> lease = simulation.scheduler.remote_blocks().load(
            chosen.id, 1 + draw(chosen.num_tokens + 3), now() + draw(60), simulation.now_s);
        if (!lease) return;
        wrong += chosen.state != SequenceState::waiting;
        wrong += lease->first >= lease->end || lease->end >= chosen.num_tokens;
        leases[chosen.id] = *lease;
        lent.insert(chosen.id);
    }

    // The tokens arrive, or some of them; perhaps too late.
    void receive_blocks() {
        if (leases.empty()) return;
        const auto chosen = std::next(leases.begin(), draw(static_cast<int>(leases.size())));
        const auto [id, lease] = *chosen;
        leases.erase(chosen);
        const Sequence* sequence = simulation.scheduler.find(id);
        const bool waits = sequence != nullptr && sequence->state == SequenceState::awaiting_blocks;
        const int32_t end = lease.first + draw(lease.end - lease.first + 1);
        if (waits) {
            simulation.worker.receive(lease.block_tables, sequence->token_ids, lease.first, end);
        }
        wrong += simulation.scheduler.remote_blocks().arrived(id, end, simulation.now_s) != waits;
        wrong += waits && sequence->num_computed != end;
    }

    void step() {
        const int what = draw(200);
        if (what < 16) {
            if (simulation.scheduler.stats().num_waiting < 20) add_request();
        } else if (what < 20) {
            cancel_something();
        } else if (what == 20) {
            if (draw(4) == 0) lose_worker();
        } else if (what == 21) {
            resize_cache();
            if (max_loras > 0) simulation.scheduler.retire_adapter(1 + draw(3 * max_loras));
        } else if (what < 24) {
            if (limits) limit_plans();
        } else if (what < 28) {
            await_blocks();
        } else if (what < 32) {
            receive_blocks();
        } else if (what < 36) {
            if (holds) what < 34 ? pause_something() : resume_something();
        } else if (what < 116) {
            plan();
        } else {
            commit();
        }
        const BlockCounts blocks = simulation.cache.stats().blocks;
        wrong += blocks.used + blocks.cached + blocks.free != blocks.total;
    }

    void run(int num_steps) {
        for (int i = 0; i < num_steps && wrong == 0; ++i) {
            step();
            if (i % 8 == 0) simulation.scheduler.check_integrity();
        }
        for (const RequestId id : held) simulation.scheduler.backpressure().resume(id);
        for (int i = 0; i < 20000 && simulation.scheduler.has_work(); ++i) {
            plan();
            commit();
        }
        while (!simulation.results.empty()) commit();
    }

    std::mt19937 random;
    RandomDrafts proposer;
    test::Folder folder;
    Simulation simulation;
    const SchedulingPolicy* policy = nullptr;
    int32_t max_loras = 0;
    RequestId next_request = 1;
    SequenceId last_admitted = 0;
    bool limits = draw(3) == 0;
    bool has_limited = false;
    bool holds = draw(3) == 0;
    std::set<RequestId> held;                  // at some time
    std::vector<int32_t> full_sizes;           // blocks of each group at first
    std::map<SequenceId, RemoteLease> leases;  // for a remote source
    std::set<SequenceId> lent;                 // those that ever had a lease
    int64_t num_added = 0;
    int64_t num_resizes = 0;
    int64_t wrong = 0;
};

struct Totals {
    int64_t sequences = 0, steps = 0, preemptions = 0, swaps_out = 0, swaps_in = 0, hits = 0;
    int64_t pauses = 0, turns = 0, recomputed = 0, resizes = 0, moved = 0;
    int64_t remote_waits = 0, remote_tokens = 0, remote_expiries = 0;
    int64_t drafts_accepted = 0, drafts_rejected = 0;
    int64_t adapters_placed = 0, adapters_evicted = 0;
    int64_t blocks_kept = 0, blocks_back = 0;
    int64_t blocks_written = 0, blocks_read = 0;

    void add(const RandomLoad& load) {
        const SchedulerStats stats = load.simulation.scheduler.stats();
        sequences += load.num_added;
        steps += stats.steps;
        preemptions += stats.preemptions;
        swaps_out += stats.swaps_out;
        swaps_in += stats.swaps_in;
        pauses += stats.pauses;
        turns += stats.aged_admissions;
        resizes += load.num_resizes;
        moved += load.simulation.cache.detailed_stats().compaction.moved_blocks;
        recomputed += stats.recomputed_tokens;
        remote_waits += stats.remote_waits;
        remote_tokens += stats.remote_tokens;
        remote_expiries += stats.remote_expiries;
        drafts_accepted += load.simulation.worker.drafts_accepted;
        drafts_rejected += load.simulation.worker.drafts_rejected;
        adapters_placed += load.simulation.worker.adapters.num_placed;
        adapters_evicted += stats.adapters.evictions;
        hits += load.simulation.cache.stats().hit_tokens;
        const TierStats& kept = load.simulation.cache.parts().host_tier.stats();
        blocks_kept += kept.blocks_kept;
        blocks_back += kept.blocks_back;
        blocks_written += load.simulation.worker.files.num_written;
        blocks_read += load.simulation.worker.files.num_read;
    }
};

const char* name_of(PreemptionMode mode) {
    if (mode == PreemptionMode::automatic) return "auto";
    return mode == PreemptionMode::swap ? "swap" : "recompute";
}

void check(const Setting& setting, unsigned seed, int num_steps, Totals& totals) {
    CAPTURE(std::string(setting.layout.name));
    CAPTURE(setting.policy);
    CAPTURE(setting.eviction);
    CAPTURE(std::string(name_of(setting.mode)));
    CAPTURE(setting.depth);
    CAPTURE(setting.ahead);
    CAPTURE(static_cast<int>(setting.drafts));
    CAPTURE(setting.max_loras);
    CAPTURE(setting.keeps_evicted);
    CAPTURE(setting.has_disk);
    RandomLoad load(setting, seed);
    load.run(num_steps);
    CHECK(load.wrong == 0);
    CHECK(load.simulation.wrong == 0);
    CHECK(load.simulation.worker.wrong == 0);
    CHECK(load.simulation.scheduler.stats().stalled_steps == 0);
    CHECK_FALSE(load.simulation.scheduler.has_work());
    CHECK(load.simulation.num_finished == load.num_added);
    CHECK(load.simulation.all_well());
    const SchedulerStats stats = load.simulation.scheduler.stats();
    if (setting.mode == PreemptionMode::recompute) {
        const TierStats& kept = load.simulation.cache.parts().host_tier.stats();
        if (!setting.has_disk) CHECK(load.simulation.worker.blocks_out <= kept.blocks_kept);
        CHECK(load.simulation.worker.blocks_in <= kept.blocks_back);
        CHECK(stats.swaps_out == 0);
    }
    CHECK(stats.swaps_out <= stats.preemptions);
    totals.add(load);
}

TEST_CASE("random loads: every sequence ends as it would alone, and no promise is broken") {
    Totals totals;
    unsigned seed = 7;
    for (const Layout& layout : layouts()) {
        for (const SchedulingPolicy& policy : scheduling_policies()) {
            for (const EvictionPolicy& eviction : eviction_policies()) {
                for (const PreemptionMode mode :
                     {PreemptionMode::automatic, PreemptionMode::swap, PreemptionMode::recompute}) {
                    ++seed;
                    const Setting setting{layout,
                                          policy.name,
                                          eviction.name,
                                          mode,
                                          static_cast<int32_t>(1 + seed % 3),
                                          seed / 3 % 2 == 0,
                                          static_cast<Drafts>(seed / 6 % 3),
                                          seed % 4 == 3 ? 2 : 0,
                                          seed % 5 < 2,
                                          seed % 7 < 2};
                    check(setting, seed, 3000, totals);
                }
            }
        }
    }
    MESSAGE(totals.sequences, " sequences, ", totals.steps, " steps, ", totals.preemptions,
            " preemptions, ", totals.swaps_out, " out and ", totals.swaps_in,
            " in of host memory, ", totals.recomputed, " tokens computed again, ", totals.hits,
            " tokens hit, ", totals.pauses, " pauses, ", totals.turns, " aged admissions, ",
            totals.resizes, " resizes, ", totals.moved, " blocks moved, ", totals.remote_waits,
            " waits for remote blocks that brought ", totals.remote_tokens, " tokens, ",
            totals.remote_expiries, " in vain, ", totals.drafts_accepted, " drafts accepted, ",
            totals.drafts_rejected, " rejected, ", totals.adapters_placed, " adapters placed, ",
            totals.adapters_evicted, " evicted, ", totals.blocks_kept,
            " cached blocks kept in host memory, ", totals.blocks_back, " back, ",
            totals.blocks_written, " written to files, ", totals.blocks_read, " read");
    CHECK(totals.blocks_written > 1000);
    CHECK(totals.blocks_read > 300);
    CHECK(totals.blocks_kept > 1000);
    CHECK(totals.blocks_back > 300);
    CHECK(totals.adapters_placed > 1000);
    CHECK(totals.adapters_evicted > 1000);
    CHECK(totals.resizes > 1000);
    CHECK(totals.moved > 1000);
    CHECK(totals.preemptions > 1000);
    CHECK(totals.swaps_in > 1000);
    CHECK(totals.swaps_out - totals.swaps_in < totals.swaps_out / 4);
    CHECK(totals.pauses > 1000);
    CHECK(totals.turns > 1000);
    CHECK(totals.hits > 10000);
    CHECK(totals.remote_tokens > 3000);
    CHECK(totals.remote_expiries > 1000);
    CHECK(totals.remote_waits > totals.remote_expiries);
    CHECK(totals.drafts_accepted > 10000);
    CHECK(totals.drafts_rejected > 10000);
}

}  // namespace
}  // namespace nvllm
