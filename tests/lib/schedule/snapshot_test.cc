// Snapshots of a scheduler: they say what the cache says, survive a round trip, and hostile ones
// are refused by name.
#include "lib/schedule/snapshot.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "lib/cache/cache_inspection.h"
#include "lib/schedule/snapshot_json.h"
#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

// Requests with few different beginnings over two groups, one of them with a window.
struct BusyScheduler {
    explicit BusyScheduler(unsigned seed)
        : random(seed),
          simulation(small_config(),
                     {.block_size = 4, .groups = {{40, 0}, {24, 7}}, .hash_key = HashKey{1, 2}}) {}

    int draw(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

    void act() {
        if (draw(3) == 0) {
            Request request = make_request(next++, counting_tokens(1 + 100 * draw(3), 1 + draw(40)),
                                           1 + draw(30));
            request.sampling.n = draw(5) == 0 ? 3 : 1;
            request.priority = draw(5) - 2;
            simulation.add(request);
        } else {
            simulation.step();
        }
    }

    std::mt19937 random;
    Simulation simulation;
    RequestId next = 1;
};

std::string faulty(const nlohmann::json& json) {
    try {
        snapshot_from_json(json.dump(), "dump.json");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_data);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("50 random states: a snapshot says what cache and sequences say") {
    int num_states = 0;
    for (unsigned seed = 1; seed <= 10; ++seed) {
        BusyScheduler busy(seed);
        for (int state = 0; state < 5; ++state) {
            for (int i = 0; i < 12; ++i) busy.act();
            const Snapshot snapshot =
                busy.simulation.scheduler.snapshot(SnapshotDetail::full, busy.simulation.now_s);
            const CacheManager& cache = busy.simulation.cache;
            for (int32_t group = 0; group < cache.num_groups(); ++group) {
                const GroupSnapshot& taken = snapshot.groups[static_cast<size_t>(group)];
                const BlockCounts counts = cache.counts(group);
                CHECK(taken.stats.blocks.total == counts.total);
                CHECK(counts.used + counts.cached + counts.free == counts.total);
                const auto owners = block_owners(snapshot, group);
                for (BlockId block = 0; block < counts.total; ++block) {
                    const auto place = static_cast<size_t>(block);
                    // Nothing is in flight, so references are occurrences in tables.
                    CHECK(std::ssize(owners[place]) == taken.references[place]);
                    auto expected = block_owners(cache.parts().tables, group, block);
                    std::ranges::sort(expected);
                    auto found = owners[place];
                    std::ranges::sort(found);
                    CHECK(found == expected);
                    CHECK((taken.references[place] > 0) ==
                          (taken.states[place] >= BlockState::used));
                }
            }
            for (const SequenceSnapshot& sequence : snapshot.sequences) {
                const Sequence* known = busy.simulation.scheduler.find(sequence.id);
                REQUIRE(known != nullptr);
                CHECK(sequence.num_tokens == known->num_tokens());
                CHECK(sequence.state == known->state);
                const bool waits = known->state != SequenceState::running;
                CHECK((sequence.wait_reason != WaitReason::none) == waits);
            }
            ++num_states;
        }
    }
    CHECK(num_states == 50);
}

TEST_CASE("a snapshot is the same after a round trip") {
    for (unsigned seed = 1; seed <= 8; ++seed) {
        BusyScheduler busy(seed);
        for (int i = 0; i < 60; ++i) busy.act();
        for (const SnapshotDetail detail : {SnapshotDetail::full, SnapshotDetail::without_tree}) {
            const std::string text =
                snapshot_to_json(busy.simulation.scheduler.snapshot(detail, 99.5));
            CHECK(snapshot_to_json(snapshot_from_json(text, "dump.json")) == text);
        }
    }
}

TEST_CASE("why a request waits") {
    SchedulerConfig config = small_config();
    config.max_num_seqs = 2;
    Simulation simulation(config, small_cache(16), kEndless);
    for (RequestId id = 1; id <= 3; ++id) simulation.add(endless(id, 4, 20));
    simulation.step();
    const auto reason_of = [&](SequenceId id) {
        for (const SequenceSnapshot& row :
             simulation.scheduler.snapshot(SnapshotDetail::without_tree, 0.0).sequences) {
            if (row.id == id) return row;
        }
        return SequenceSnapshot{};
    };
    CHECK(reason_of(1).wait_reason == WaitReason::none);
    CHECK(reason_of(3).wait_reason == WaitReason::no_slot);

    Simulation tight(small_config(), small_cache(10), kEndless);
    tight.add(endless(1, 28, 8));
    tight.step();
    tight.add(endless(2, 24, 8));
    tight.add(endless(3, 4, 8));
    tight.step();
    const Snapshot snapshot = tight.scheduler.snapshot(SnapshotDetail::full, 0.0);
    REQUIRE(snapshot.sequences.size() == 3);
    CHECK(snapshot.sequences[1].wait_reason == WaitReason::no_blocks);
    // 6 blocks for 24 tokens, one of headroom; 2 are left of 10.
    CHECK(snapshot.sequences[1].num_missing_blocks == 5);
    CHECK(snapshot.sequences[2].wait_reason == WaitReason::behind_another);
    CHECK(snapshot.sequences[2].waits_for == snapshot.sequences[1].id);
}

TEST_CASE("the other sequences of a request wait for the one that computes the prompt") {
    SchedulerConfig config = small_config();
    config.max_num_batched_tokens = 8;
    Simulation simulation(config, small_cache(), kEndless);
    Request request = endless(1, 20, 8);
    request.sampling.n = 2;
    simulation.add(request);
    simulation.step();
    const Snapshot snapshot = simulation.scheduler.snapshot(SnapshotDetail::full, 0.0);
    REQUIRE(snapshot.sequences.size() == 2);
    CHECK(snapshot.sequences[1].wait_reason == WaitReason::other_sequence);
    CHECK(snapshot.sequences[1].waits_for == snapshot.sequences[0].id);
}

TEST_CASE("hostile snapshots are refused, naming the field") {
    BusyScheduler busy(3);
    for (int i = 0; i < 60; ++i) busy.act();
    const auto good = nlohmann::json::parse(
        snapshot_to_json(busy.simulation.scheduler.snapshot(SnapshotDetail::full, 1.0)));
    REQUIRE(faulty(good) == "");
    REQUIRE(!good["sequences"].empty());
    const auto with = [&](const char* pointer, const nlohmann::json& value) {
        nlohmann::json bad = good;
        bad[nlohmann::json::json_pointer(pointer)] = value;
        return faulty(bad);
    };
    CHECK(with("/schema", "nvllm.snapshot/9").find("dump.json: schema is") == 0);
    CHECK(with("/surprise", 1).find("a field that does not belong") != std::string::npos);
    CHECK(with("/now_s", "x").find("now_s is not a number") != std::string::npos);
    CHECK(with("/tick", -1).find("tick is out of range") != std::string::npos);
    CHECK(with("/config/block_size", 0).find("config.block_size is below") != std::string::npos);
    CHECK(with("/config/block_size", int64_t{1} << 40).find("block_size") != std::string::npos);
    CHECK(with("/groups", nlohmann::json::array()).find("groups has not") != std::string::npos);
    CHECK(with("/groups/0/states", "zz").find("groups[0].states") != std::string::npos);
    CHECK(with("/groups/0/figures/blocks/free", 7777).find("blocks.free") != std::string::npos);
    CHECK(with("/groups/0/figures/blocks/total", 2'000'000'000).find("states is not as long") !=
          std::string::npos);
    CHECK(with("/sequences/0/state", "asleep").find("sequences[0].state") != std::string::npos);
    CHECK(with("/sequences/0/tables", nlohmann::json::array()).find("sequences[0].tables") !=
          std::string::npos);
    CHECK(with("/sequences/0/tables/0/blocks", {99999}).find("tables[0].blocks[0]") !=
          std::string::npos);
    CHECK(with("/runs/0/parent", 0).find("runs[0].parent") != std::string::npos);
    nlohmann::json missing = good;
    missing["scheduler"].erase("steps");
    CHECK(faulty(missing).find("scheduler.steps is missing") != std::string::npos);
}

TEST_CASE("a truncated snapshot is refused wherever it ends") {
    BusyScheduler busy(5);
    for (int i = 0; i < 30; ++i) busy.act();
    const std::string text =
        snapshot_to_json(busy.simulation.scheduler.snapshot(SnapshotDetail::full, 1.0));
    for (size_t length = 0; length < text.size(); length += 97) {
        CHECK_THROWS_AS(snapshot_from_json(text.substr(0, length), "cut"), Error);
    }
}

}  // namespace nvllm
