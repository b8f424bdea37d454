// Sequences whose first tokens are computed elsewhere: leases, arrivals, deadlines.
#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "lib/schedule/snapshot.h"
#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

SequenceState state_of(const Simulation& simulation, SequenceId id) {
    return simulation.scheduler.find(id)->state;
}

std::optional<RemoteLease> lend(Simulation& simulation, SequenceId id, int32_t num_tokens,
                                double deadline_s) {
    return simulation.scheduler.remote_blocks().load(id, num_tokens, deadline_s, simulation.now_s);
}

bool arrive(Simulation& simulation, SequenceId id, const RemoteLease& lease, int32_t end) {
    simulation.worker.receive(lease.block_tables, simulation.scheduler.find(id)->token_ids,
                              lease.first, end);
    return simulation.scheduler.remote_blocks().arrived(id, end, simulation.now_s);
}

TEST_CASE("tokens that come from elsewhere are not computed") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 20, 4));
    const std::optional<RemoteLease> lease = lend(simulation, 1, 16, 100.0);
    REQUIRE(lease.has_value());
    CHECK(lease->first == 0);
    CHECK(lease->end == 16);
    CHECK(lease->block_tables[0].size() == 5);
    CHECK(state_of(simulation, 1) == SequenceState::awaiting_blocks);
    CHECK(simulation.cache.stats().blocks.used == 5);

    // Others run meanwhile.
    simulation.add(endless(2, 6, 2));
    simulation.step();
    CHECK(entries(simulation) == Rows{{2, 0, 6}});
    CHECK(simulation.scheduler.stats().num_awaiting == 1);
    simulation.scheduler.check_integrity();

    CHECK(arrive(simulation, 1, *lease, 16));
    CHECK(simulation.scheduler.stats().num_awaiting == 0);
    CHECK(simulation.cache.stats().blocks.used > 5);
    simulation.step();
    CHECK(entries(simulation) == Rows{{2, 6, 1}, {1, 16, 4}});
    CHECK(simulation.scheduler.find(1)->num_cached_tokens == 16);
    CHECK(simulation.scheduler.find(1)->first_scheduled_s == doctest::Approx(simulation.now_s - 1));
    simulation.run();
    CHECK(simulation.num_finished == 2);
    CHECK(simulation.worker.computed_positions == 4 + 3 + 6 + 1);
    CHECK(simulation.scheduler.stats().remote_tokens == 16);
    CHECK_FALSE(simulation.scheduler.remote_blocks().arrived(1, 16, 0.0));
    CHECK(simulation.all_well());

    // What came is found by others.
    Request again = endless(3, 20, 1);
    again.prompt_token_ids = counting_tokens(1000, 20);
    simulation.add(again);
    simulation.step();
    CHECK(entries(simulation) == Rows{{3, 16, 4}});
}

TEST_CASE("tokens that miss the deadline are computed here") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 20, 4));
    REQUIRE(lend(simulation, 1, 16, 2.5).has_value());
    CHECK_FALSE(simulation.plan());
    CHECK(state_of(simulation, 1) == SequenceState::awaiting_blocks);
    CHECK_FALSE(simulation.plan());
    CHECK(simulation.scheduler.has_work());
    CHECK(simulation.step());
    CHECK(entries(simulation) == Rows{{1, 0, 20}});
    CHECK(simulation.scheduler.stats().remote_expiries == 1);
    CHECK_FALSE(simulation.scheduler.remote_blocks().arrived(1, 16, simulation.now_s));
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("a part of what was to come is enough to go on from") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 20, 4));
    const std::optional<RemoteLease> lease = lend(simulation, 1, 100, 9.0);
    REQUIRE(lease.has_value());
    CHECK(lease->end == 19);  // the last token is computed here: its logits are wanted
    CHECK(arrive(simulation, 1, *lease, 7));
    simulation.step();
    CHECK(entries(simulation) == Rows{{1, 7, 13}});
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("only what is not in the cache is to come") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 20, 1));
    simulation.run();
    Request same = endless(2, 20, 1);
    same.prompt_token_ids = counting_tokens(1000, 14);
    same.prompt_token_ids.resize(24, 5);
    simulation.add(same);
    CHECK_FALSE(lend(simulation, 2, 12, 50.0).has_value());
    const std::optional<RemoteLease> lease = lend(simulation, 2, 20, 50.0);
    REQUIRE(lease.has_value());
    CHECK(lease->first == 12);
    CHECK(lease->end == 20);
    CHECK(arrive(simulation, 2, *lease, 20));
    simulation.run();
    CHECK(simulation.num_finished == 2);
    CHECK(simulation.all_well());
}

TEST_CASE("who cannot wait for remote blocks") {
    Simulation simulation(small_config(), small_cache(16), kEndless);
    CHECK_FALSE(lend(simulation, 1, 8, 9.0).has_value());  // unknown
    Request beams = endless(1, 20, 4);
    beams.sampling.use_beam_search = true;
    beams.sampling.best_of = 2;
    simulation.add(beams);
    CHECK_FALSE(lend(simulation, 1, 16, 9.0).has_value());
    for (const SequenceId id : simulation.scheduler.cancel(1)) simulation.check_finished(id);
    Request scored = endless(2, 20, 4);
    scored.sampling.prompt_logprobs = 0;
    simulation.add(scored);
    CHECK_FALSE(lend(simulation, 3, 16, 9.0).has_value());
    Request twins = endless(3, 20, 4);
    twins.sampling.n = 2;
    simulation.add(twins);
    CHECK_FALSE(lend(simulation, 5, 16, 9.0).has_value());  // waits for its sibling
    CHECK(lend(simulation, 4, 16, 9.0).has_value());
    CHECK_FALSE(lend(simulation, 4, 16, 9.0).has_value());  // waits already
    simulation.add(endless(4, 60, 4));
    CHECK_FALSE(lend(simulation, 6, 40, 9.0).has_value());  // no room
    simulation.run();
    CHECK(simulation.num_finished == 6);
    CHECK(simulation.all_well());

    simulation.add(endless(5, 8, 4));
    simulation.add(endless(6, 8, 4));
    CHECK(simulation.plan());
    CHECK_FALSE(lend(simulation, 8, 8, 99.0).has_value());  // runs, and a plan is under way
    simulation.commit();
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("a lease ends with its request and with the worker, and nothing moves before") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 20, 4));
    simulation.add(endless(2, 20, 4));
    REQUIRE(lend(simulation, 1, 16, 1e9).has_value());
    REQUIRE(lend(simulation, 2, 16, 1e9).has_value());
    const std::vector<int32_t> fewer{40};
    CHECK_FALSE(simulation.scheduler.resize_cache(fewer, 0.0));
    CHECK(simulation.scheduler.cancel(1) == std::vector<SequenceId>{1});
    simulation.check_finished(1);
    CHECK_FALSE(simulation.scheduler.remote_blocks().arrived(1, 16, 0.0));
    CHECK(simulation.cache.stats().blocks.used == 5);
    simulation.scheduler.reset_worker();
    simulation.worker.restart();
    CHECK(state_of(simulation, 2) == SequenceState::waiting);
    CHECK_FALSE(simulation.scheduler.remote_blocks().arrived(2, 16, 0.0));
    CHECK(simulation.scheduler.resize_cache(fewer, 0.0));
    simulation.run();
    CHECK(simulation.num_finished == 2);
    CHECK(simulation.all_well());
}

TEST_CASE("blocks that are still to be copied to host memory are not leased") {
    SchedulerConfig config = small_config();
    config.preemption_mode = PreemptionMode::swap;
    CacheConfig cache = small_cache(16);
    cache.groups[0].num_host_blocks = 16;
    Simulation simulation(config, cache, kEndless);
    simulation.add(endless(1, 14, 16));
    simulation.add(endless(2, 14, 16));
    simulation.step();
    // One sequence is preempted; its blocks are free, and copied with the next plan.
    const std::vector<int32_t> fewer{8};
    simulation.step();
    while (simulation.cache.stats().blocks.used <= 8) simulation.step();
    CHECK_FALSE(simulation.scheduler.resize_cache(fewer, simulation.now_s));
    CHECK(state_of(simulation, 2) == SequenceState::swapped);
    simulation.add(endless(3, 14, 4));
    CHECK_FALSE(lend(simulation, 3, 12, 99.0).has_value());
    simulation.run();
    CHECK(simulation.num_finished == 3);
    CHECK(simulation.all_well());
}

TEST_CASE("a snapshot tells who waits for remote blocks, and how long at most") {
    Simulation simulation(small_config(), small_cache(), kEndless);
    simulation.add(endless(1, 20, 4));
    REQUIRE(lend(simulation, 1, 16, 7.5).has_value());
    const Snapshot snapshot = simulation.scheduler.snapshot(SnapshotDetail::full, 1.0);
    REQUIRE(snapshot.sequences.size() == 1);
    CHECK(snapshot.sequences[0].state == SequenceState::awaiting_blocks);
    CHECK(snapshot.sequences[0].wait_reason == WaitReason::remote_blocks);
    CHECK(snapshot.sequences[0].lease_end_s == 7.5);
    CHECK(snapshot.sequences[0].tables[0].blocks.size() == 5);
    CHECK(snapshot.scheduler.num_awaiting == 1);
    CHECK(snapshot.scheduler.num_waiting == 1);
    CHECK(snapshot.scheduler.remote_waits == 1);
}

}  // namespace
}  // namespace nvllm
