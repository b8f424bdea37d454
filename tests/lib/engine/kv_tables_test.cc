// Keys and values gathered through the tables that inspection prints are those of a plain run.
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/execute/worker.h"
#include "lib/model/loader.h"
#include "lib/schedule/scheduler.h"
#include "lib/schedule/snapshot.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

constexpr int32_t kLongest = 256;

std::unique_ptr<Model> load(ThreadPool& threads) {
    ModelLoadOptions options;
    options.directory = test::source_path("models/demo-draft");
    options.dtype = DType::f32;
    options.threads = &threads;
    return load_model(options);
}

WorkerConfig worker_config(int32_t block_size, int32_t num_blocks, int32_t num_host_blocks) {
    WorkerConfig config;
    config.block_size = block_size;
    config.num_blocks = {num_blocks};
    config.num_host_blocks = {num_host_blocks};
    config.kv_dtype = DType::f32;
    return config;
}

// Keys, then values, of the first `count` positions in one layer: [positions, kv_heads, head_dim].
std::vector<float> gather(const KvLayer& layer, const std::vector<int32_t>& table,
                          int32_t block_size, int32_t count) {
    std::vector<float> rows;
    const int64_t heads = layer.values.dim(1);
    const int64_t size = layer.values.dim(3);
    for (const bool is_key : {true, false}) {
        const TensorView& cache = is_key ? layer.keys : layer.values;
        for (int64_t i = 0; i < count * heads * size; ++i) {
            const int64_t position = i / (heads * size);
            const int64_t block = table[static_cast<size_t>(position / block_size)];
            const float* head =
                cache.as<float>() + block * cache.stride(0) + i / size % heads * cache.stride(1);
            const int64_t offset = position % block_size;
            rows.push_back(is_key ? head[i % size * block_size + offset]
                                  : head[offset * size + i % size]);
        }
    }
    return rows;
}

// The whole sequence at once, in one block.
class ContiguousRun {
  public:
    explicit ContiguousRun(ThreadPool& threads)
        : worker_(load(threads), worker_config(kLongest, 1, 0), threads) {}

    const Worker& compute(const std::vector<int32_t>& token_ids) {
        BatchPlan plan;
        plan.number = ++number_;
        if (number_ > 1) plan.removed = {1};
        AddedSequence& added = plan.added.emplace_back();
        added.sequence = 1;
        added.token_ids = token_ids;
        added.num_prompt_tokens = static_cast<int32_t>(token_ids.size());
        added.sampling.seed = 1;
        added.block_tables = {{}};
        PlanEntry& entry = plan.entries.emplace_back();
        entry.sequence = 1;
        entry.count = static_cast<int32_t>(token_ids.size());
        entry.new_blocks = {{0}};
        worker_.execute(plan);
        return worker_;
    }

  private:
    Worker worker_;
    uint64_t number_ = 0;
};

struct Run {
    explicit Run(ThreadPool& threads, const CacheConfig& cache_config,
                 const SchedulerConfig& scheduler_config)
        : cache(cache_config),
          scheduler(scheduler_config, cache),
          worker(load(threads),
                 worker_config(cache_config.block_size, cache_config.groups[0].num_blocks,
                               cache_config.groups[0].num_host_blocks),
                 threads) {}

    void step() {
        const std::optional<BatchPlan> plan = scheduler.next(now_s += 0.01);
        if (!plan) return;
        const StepResult result = worker.execute(*plan);
        scheduler.commit(result, scheduler.check_stop(result), now_s);
        scheduler.take_beam_results();
    }

    CacheManager cache;
    Scheduler scheduler;
    Worker worker;
    double now_s = 0.0;
};

Request random_request(RequestId id, std::mt19937& random) {
    Request request;
    request.id = id;
    const auto length = 1 + static_cast<int32_t>(random() % 90);
    for (int32_t i = 0; i < length; ++i) {
        // Half of them begin alike, so that blocks are shared.
        const int32_t shared = 5 + i * 7 % 900;
        const bool alike = id % 2 == 0 && i < 40;
        request.prompt_token_ids.push_back(alike ? shared
                                                 : static_cast<int32_t>(5 + random() % 2000));
    }
    request.sampling.max_tokens = 20 + static_cast<int32_t>(random() % 60);
    request.sampling.ignore_eos = true;
    request.sampling.temperature = 0.0f;
    request.sampling.seed = id;
    request.sampling.n = id % 5 == 0 ? 3 : 1;
    request.sampling.use_beam_search = id % 10 == 0;
    return request;
}

TEST_CASE("what tables of 50 random states say is where keys and values are, bit for bit") {
    ThreadPool threads(2);
    SchedulerConfig config;
    config.max_num_seqs = 12;
    config.max_num_batched_tokens = 64;
    config.max_model_len = kLongest;
    config.policy = "hybrid";
    config.preemption_mode = PreemptionMode::swap;
    config.defrag_threshold = 0.2;
    const CacheConfig cache{
        .block_size = 4, .groups = {{150, 0, 100}}, .hash_key = HashKey{1, 2}, .eviction = "cost"};
    Run run(threads, cache, config);
    ContiguousRun contiguous(threads);
    std::mt19937 random(11);
    RequestId next = 1;
    int states = 0;
    int64_t positions = 0;
    int64_t shared_blocks = 0;
    for (int step = 0; states < 50; ++step) {
        REQUIRE(step < 5000);
        if (run.scheduler.stats().num_waiting < 4) {
            REQUIRE(run.scheduler.add(random_request(next++, random)).ok());
        }
        run.step();
        if (random() % 12 != 0) continue;
        const Snapshot snapshot = run.scheduler.snapshot(SnapshotDetail::without_tree, run.now_s);
        const auto owners = block_owners(snapshot, 0);
        for (const SequenceSnapshot& shown : snapshot.sequences) {
            if (shown.state != SequenceState::running || shown.num_computed == 0) continue;
            const Sequence* sequence = run.scheduler.find(shown.id);
            std::vector<int32_t> tokens = sequence->token_ids;
            tokens.resize(static_cast<size_t>(shown.num_computed));
            const Worker& plain = contiguous.compute(tokens);
            const std::vector<int32_t>& table = shown.tables[0].blocks;
            for (size_t layer = 0; layer < plain.kv_storage().layers().size(); ++layer) {
                const auto ours =
                    gather(run.worker.kv_storage().layers()[layer], table, 4, shown.num_computed);
                const auto expected =
                    gather(plain.kv_storage().layers()[layer], {0}, kLongest, shown.num_computed);
                CHECK(ours.size() == expected.size());
                CHECK(std::memcmp(ours.data(), expected.data(), ours.size() * sizeof(float)) == 0);
            }
            positions += shown.num_computed;
            for (const int32_t block : table) {
                shared_blocks += owners[static_cast<size_t>(block)].size() > 1;
            }
        }
        ++states;
    }
    const SchedulerStats stats = run.scheduler.stats();
    MESSAGE(positions, " positions, ", shared_blocks, " shared blocks in tables, ",
            stats.preemptions, " preemptions, ", stats.swaps_in, " swaps back in, ", stats.pauses,
            " pauses, ", run.cache.detailed_stats().compaction.moved_blocks, " blocks moved");
    CHECK(shared_blocks > 0);
    CHECK(stats.swaps_in > 0);
}

}  // namespace
}  // namespace nvllm
