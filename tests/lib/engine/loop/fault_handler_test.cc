// What follows from failed steps and lost workers.
#include "lib/engine/loop/fault_handler.h"

#include <doctest/doctest.h>

#include <new>

#include "tests/lib/engine/loop/loop_testing.h"

using namespace nvllm;
using namespace nvllm::test;

namespace {

// Steps until nothing moves; a restarted worker is checked in between.
void run_with_restarts(LoopParts& parts) {
    for (int i = 0; i < 50; ++i) {
        parts.run();
        if (parts.scheduler.has_work() && !parts.faults.dead()) {
            std::this_thread::sleep_for(
                parts.faults.wake_after().value_or(std::chrono::milliseconds(0)));
        }
        parts.faults.check_worker(parts.steps.can_step());
    }
}

}  // namespace

TEST_CASE("a step that fails once is retried, and tokens are as without the failure") {
    LoopParts parts;
    const RequestId id = parts.add(3, 4);
    int countdown = 2;
    parts.executor.before_step = [&](const BatchPlan&) {
        if (--countdown == 0) throw std::bad_alloc();
    };
    parts.run();
    CHECK(parts.received[id].ids == scripted_ids(3, 4));
    CHECK(parts.received[id].finish == FinishReason::length);
    CHECK(parts.executor.num_forgets == 1);
    CHECK(parts.faults.counts().out_of_memory == 1);
    CHECK(parts.status.health().last_fault == "out of memory in a step");
}

TEST_CASE("a request whose steps fail again and again ends with the cause, and others go on") {
    LoopParts parts;
    const RequestId bad = parts.add(7, 4);
    const RequestId good = parts.add(3, 4);
    parts.executor.before_step = [&](const BatchPlan& plan) {
        for (const AddedSequence& added : plan.added) {
            if (added.num_prompt_tokens == 7) throw std::runtime_error("bad prompt");
        }
    };
    parts.run();
    CHECK(parts.received[bad].finish == FinishReason::error);
    CHECK(parts.received[bad].fault->message == "bad prompt");
    CHECK(parts.received[good].ids == scripted_ids(3, 4));
}

TEST_CASE("a worker that dies in a step is replaced, and the step is retried") {
    LoopParts parts;
    const RequestId id = parts.add(3, 4);
    int countdown = 2;
    parts.executor.before_step = [&](const BatchPlan&) {
        if (--countdown == 0) throw WorkerDied("it crashed");
    };
    run_with_restarts(parts);
    CHECK(parts.received[id].ids == scripted_ids(3, 4));
    CHECK(parts.executor.num_starts == 1);
    CHECK(parts.faults.counts().worker_restarts == 1);
    CHECK(parts.num_published > 0);
    CHECK(parts.faults.state() == EngineState::running);
}

TEST_CASE("a worker that dies while it is idle is replaced") {
    LoopParts parts;
    parts.executor.death = "killed";
    parts.faults.check_worker(true);
    CHECK(parts.executor.num_starts == 0);
    parts.faults.check_worker(false);
    run_with_restarts(parts);
    CHECK(parts.executor.num_starts == 1);
    CHECK(parts.faults.worker_is_ready());
}

TEST_CASE("an engine that gives up ends open requests and drops resizes") {
    LoopParts parts;
    const RequestId id = parts.add(3, 4);
    ResizeMessage resize{{8}, {}};
    std::future<void> done = resize.done.get_future();
    parts.resizes.add(std::move(resize));
    parts.faults.give_up("the worker cannot be started: no weights");
    CHECK(parts.faults.state() == EngineState::failed);
    CHECK(parts.faults.dead()->code == "engine_dead");
    CHECK(parts.received[id].fault->message ==
          "engine dead: the worker cannot be started: no weights");
    CHECK_THROWS_AS(done.get(), std::future_error);
    CHECK_FALSE(parts.steps.can_step());
}

TEST_CASE("weights are read again after several sequences in a row without numbers") {
    LoopParts parts;
    parts.executor.gives_nonfinite = true;
    for (int i = 0; i <= kMaxNonfiniteInARow; ++i) parts.add(3, 4);
    parts.run();
    CHECK(parts.executor.num_starts == 1);
    CHECK(parts.faults.counts().weight_reloads == 1);
    parts.executor.gives_nonfinite = false;
    const RequestId id = parts.add(3, 4);
    run_with_restarts(parts);
    CHECK(parts.faults.counts().worker_restarts == 0);
    CHECK(parts.received[id].ids == scripted_ids(3, 4));
}
