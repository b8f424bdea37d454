// Another size of the cache while requests run.
#include "lib/schedule/planning/cache_resizer.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernels/error.h"
#include "tests/lib/schedule/parts.h"

namespace nvllm {
namespace {

TEST_CASE("a smaller cache preempts the last sequences") {
    Parts parts(small_config(), small_cache(12));
    parts.add_running(endless(1, 15, 4));  // 4 blocks, 5 at the end
    ScheduledSequence& last = parts.add_running(endless(2, 15, 4));
    CHECK(parts.resizer.resize(std::vector<int32_t>{8}));
    CHECK(last.sequence.state == SequenceState::running);
    CHECK_FALSE(parts.resizer.resize(std::vector<int32_t>{5}));  // the next plan has moves
    BatchPlan plan;
    parts.update.move_into(plan);
    CHECK(parts.resizer.resize(std::vector<int32_t>{5}));
    CHECK(last.sequence.state == SequenceState::waiting);
    CHECK(parts.running.size() == 1);
    CHECK(parts.cache.counts(0).total == 5);
    CHECK(parts.update.num_blocks == std::vector<int32_t>{5});
}

TEST_CASE("no sequence may be left that cannot finish") {
    Parts parts(small_config(), small_cache(12));
    parts.add_running(endless(1, 15, 4));
    CHECK_THROWS_AS(parts.resizer.resize(std::vector<int32_t>{4}), Error);
}

TEST_CASE("blocks do not move under a plan, a pending copy or a lease") {
    Parts parts;
    ScheduledSequence& one = parts.add_running(endless(1, 15, 4));
    const std::vector<int32_t> fewer{40};
    SUBCASE("a plan") {
        parts.plans.add({.number = parts.plans.next_number(), .entries = {}, .drafts = {}});
        CHECK_FALSE(parts.resizer.resize(fewer));
        parts.plans.forget_all();
    }
    SUBCASE("a copy") {
        parts.update.copies.emplace_back();
        CHECK_FALSE(parts.resizer.resize(fewer));
        parts.update.clear();
    }
    SUBCASE("a lease") {
        const ScheduledSequence& leased = parts.add(endless(2, 15, 4));
        REQUIRE(parts.remote.load(leased.sequence.id, 12, 99.0, 0.0).has_value());
        CHECK_FALSE(parts.resizer.resize(fewer));
        parts.remote.expire(100.0);
    }
    CHECK(parts.resizer.resize(fewer));
    CHECK(one.sequence.state == SequenceState::running);
}

TEST_CASE("the state of the cache is added to a measurement") {
    Parts parts(small_config(), small_cache(16));
    parts.add_running(endless(1, 15, 4));
    StepObservation step;
    parts.resizer.collect_cache_stats(step);
    CHECK(step.free_memory_share == doctest::Approx(0.75));
}

}  // namespace
}  // namespace nvllm
