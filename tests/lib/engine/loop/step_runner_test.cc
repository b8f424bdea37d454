// Steps from plan to record, with one and with several in flight.
#include "lib/engine/loop/step_runner.h"

#include <doctest/doctest.h>

#include "tests/lib/engine/loop/loop_testing.h"

using namespace nvllm;
using namespace nvllm::test;

TEST_CASE("requests get the same tokens with any number of steps in flight") {
    for (const int depth : {1, 2, 3}) {
        CAPTURE(depth);
        LoopParts parts({.depth = depth});
        const RequestId first = parts.add(3, 9);
        const RequestId second = parts.add(5, 4);
        parts.run();
        CHECK(parts.received[first].ids == scripted_ids(3, 9));
        CHECK(parts.received[second].ids == scripted_ids(5, 4));
        CHECK(parts.received[first].num_last == 1);
        CHECK(parts.executor.max_begun == static_cast<size_t>(depth == 1 ? 0 : depth));
        CHECK_FALSE(parts.scheduler.has_work());
        parts.scheduler.check_integrity();
    }
}

TEST_CASE("every step is recorded, in the order of the plans") {
    LoopParts parts;
    parts.add(3, 4);
    parts.run();
    REQUIRE(parts.records.size() == 4);
    for (size_t i = 0; i < parts.records.size(); ++i) {
        CHECK(parts.records[i].plan_number == i + 1);
        CHECK(parts.records[i].num_tokens == (i == 0 ? 3 : 1));
    }
    CHECK(parts.records[0].admitted == std::vector<RequestId>{1});
    CHECK(parts.records[1].admitted.empty());
    CHECK(parts.records[3].num_finished == 1);
}

TEST_CASE("a failure with several steps in flight voids them all, and tokens stay the same") {
    LoopParts parts({.depth = 3});
    const RequestId id = parts.add(3, 9);
    int countdown = 5;
    parts.executor.before_step = [&](const BatchPlan&) {
        if (--countdown == 0) throw std::runtime_error("once");
    };
    parts.run();
    CHECK(parts.received[id].ids == scripted_ids(3, 9));
    CHECK(parts.executor.num_forgets == 1);
}

TEST_CASE("a resize waits until no step is in flight") {
    LoopParts parts({.depth = 2});
    const RequestId id = parts.add(3, 12);
    parts.steps.step();
    ResizeMessage resize{{32}, {}};
    std::future<void> done = resize.done.get_future();
    parts.resizes.add(std::move(resize));
    parts.run();
    CHECK(parts.resizes.empty());
    CHECK(parts.cache.stats().blocks.total == 32);
    CHECK(parts.received[id].ids == scripted_ids(3, 12));
}

TEST_CASE("there is nothing to step without work or without a worker") {
    LoopParts parts;
    CHECK_FALSE(parts.steps.can_step());
    CHECK_FALSE(parts.steps.step());
    parts.add(3, 1);
    CHECK(parts.steps.can_step());
    parts.executor.is_ready = false;
    parts.executor.death = "gone";
    parts.faults.check_worker(false);
    CHECK_FALSE(parts.steps.can_step());
}
