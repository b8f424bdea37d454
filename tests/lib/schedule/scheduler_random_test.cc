// Long random runs of the scheduler: every policy, depth, chunking and cache layout, with cancels,
// faults and lost workers.
//
// What must hold throughout: no read of a wrong slot and no position computed twice between
// preemptions (the fake worker counts both), budgets and slots kept, blocks conserved, first come
// first let in, the most senior running sequence never preempted, and in the end every answer is
// the one that nothing would have changed.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

struct Layout {
    const char* name;
    std::vector<CacheGroupConfig> groups;
    bool prefix_caching;
    bool chunked;
    int32_t chunk_size;
};

constexpr int32_t kMaxModelLen = 48;
constexpr int32_t kBlockSize = 4;
constexpr int32_t kBatchedTokens = 48;

std::vector<Layout> layouts() {
    // Tight: 12 blocks hold one sequence of full length.
    return {
        {"tight", {{12, 0}}, true, true, 0},
        {"tight, no prefix caching", {{12, 0}}, false, true, 0},
        {"roomy", {{90, 0}}, true, true, 0},
        {"small chunks", {{26, 0}}, true, true, 5},
        {"whole prompts", {{26, 0}}, true, false, 0},
        {"sliding and full", {{26, 0}, {16, 7}}, true, true, 8},
        {"sliding only", {{14, 6}}, true, true, 8},
        {"sliding, tight", {{4, 6}}, true, true, 8},
    };
}

struct RandomLoad {
    RandomLoad(const Layout& layout, const std::string& policy, int32_t depth, unsigned seed)
        : random(seed), simulation(scheduler_config(layout, policy, depth), cache_config(layout)) {
        for (const SchedulingPolicy& row : scheduling_policies()) {
            if (row.name == policy) this->policy = &row;
        }
    }

    static SchedulerConfig scheduler_config(const Layout& layout, const std::string& policy,
                                            int32_t depth) {
        SchedulerConfig config;
        config.max_num_seqs = 6;
        config.max_num_batched_tokens = kBatchedTokens;
        config.max_model_len = kMaxModelLen;
        config.pipeline_depth = depth;
        config.enable_chunked_prefill = layout.chunked;
        config.chunk_size = layout.chunk_size;
        config.policy = policy;
        return config;
    }
    static CacheConfig cache_config(const Layout& layout) {
        return {.block_size = kBlockSize,
                .groups = layout.groups,
                .enable_prefix_caching = layout.prefix_caching,
                .hash_key = HashKey{1, 2}};
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

    // As the scheduler will see it.
    double now() const { return simulation.now_s + 1.0; }

    // One call, watched: whoever ranks first of the running is not preempted by it, unless its time
    // slice was over.
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
        wrong += preempted && !simulation.last_plan.added.empty();
        for (const AddedSequence& added : simulation.last_plan.added) {
            const Sequence& sequence = *simulation.scheduler.find(added.sequence);
            if (policy->name != std::string("fcfs")) continue;
            if (sequence.index != 0 || sequence.num_preemptions > 0) continue;
            wrong += sequence.id < last_admitted;
            last_admitted = sequence.id;
        }
    }

    void commit() {
        if (!simulation.results.empty() && draw(60) == 0) {
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
            draw(2) == 0 ? simulation.scheduler.cancel_sequence(id)
                         : simulation.scheduler.cancel(static_cast<RequestId>(id));
        for (const SequenceId sequence : done) simulation.check_finished(sequence);
    }

    void lose_worker() {
        for (const SequenceId id : simulation.scheduler.reset_worker())
            simulation.check_finished(id);
        simulation.results.clear();
        simulation.worker.restart();
    }

    void step() {
        const int what = draw(200);
        if (what < 16) {
            if (simulation.scheduler.stats().num_waiting < 20) add_request();
        } else if (what < 20) {
            cancel_something();
        } else if (what == 20) {
            if (draw(4) == 0) lose_worker();
        } else if (what < 110) {
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
        for (int i = 0; i < 20000 && simulation.scheduler.has_work(); ++i) {
            plan();
            commit();
        }
        while (!simulation.results.empty()) commit();
    }

    std::mt19937 random;
    Simulation simulation;
    const SchedulingPolicy* policy = nullptr;
    RequestId next_request = 1;
    SequenceId last_admitted = 0;
    int64_t num_added = 0;
    int64_t wrong = 0;
};

TEST_CASE("random loads: every sequence ends as it would alone, and no promise is broken") {
    int64_t sequences = 0;
    int64_t steps = 0;
    int64_t preemptions = 0;
    int64_t hits = 0;
    int64_t pauses = 0;
    int64_t turns = 0;
    for (const Layout& layout : layouts()) {
        for (const SchedulingPolicy& policy : scheduling_policies()) {
            for (const int32_t depth : {1, 2, 3}) {
                CAPTURE(std::string(layout.name));
                CAPTURE(std::string(policy.name));
                CAPTURE(depth);
                RandomLoad load(layout, policy.name, depth, static_cast<unsigned>(7 + depth));
                load.run(10000);
                CHECK(load.wrong == 0);
                CHECK(load.simulation.wrong == 0);
                CHECK(load.simulation.worker.wrong == 0);
                CHECK(load.simulation.scheduler.stats().stalled_steps == 0);
                CHECK_FALSE(load.simulation.scheduler.has_work());
                CHECK(load.simulation.num_finished == load.num_added);
                CHECK(load.simulation.all_well());
                sequences += load.num_added;
                steps += load.simulation.scheduler.stats().steps;
                preemptions += load.simulation.scheduler.stats().preemptions;
                pauses += load.simulation.scheduler.stats().pauses;
                turns += load.simulation.scheduler.stats().turns_of_oldest;
                hits += load.simulation.cache.stats().hit_tokens;
            }
        }
    }
    MESSAGE(sequences, " sequences, ", steps, " steps, ", preemptions, " preemptions, ", hits,
            " tokens hit");
    MESSAGE(pauses, " pauses, ", turns, " turns of the oldest");
    CHECK(pauses > 1000);
    CHECK(turns > 1000);
    CHECK(preemptions > 1000);
    CHECK(hits > 10000);
}

}  // namespace
}  // namespace nvllm
