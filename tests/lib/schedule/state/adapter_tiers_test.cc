// Which adapters get slots, and when their sequences may run.
#include "lib/schedule/state/adapter_tiers.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

AdapterRef adapter(int32_t id) { return {id, "", "key" + std::to_string(id), "folder", 0}; }

Request with_adapter(RequestId id, int32_t adapter_id, int32_t max_tokens = 6) {
    Request request = endless(id, 5, max_tokens);
    if (adapter_id > 0) request.adapter = adapter(adapter_id);
    return request;
}

// One that loads and places in so many plans each.
struct Adapted : Simulation {
    explicit Adapted(AdapterTierLimits limits, int delay = 0, int32_t max_num_seqs = 8)
        : Simulation(
              [&] {
                  SchedulerConfig config = small_config();
                  config.adapters = limits;
                  config.max_num_seqs = max_num_seqs;
                  return config;
              }(),
              small_cache(), kEndless) {
        worker.adapters.limits = limits;
        worker.adapters.delays = {delay};
    }
    AdapterStats stats() const { return scheduler.stats().adapters; }
    SequenceState state(SequenceId id) const { return scheduler.find(id)->state; }
};

TEST_CASE("a sequence waits for its adapter and holds nobody up") {
    Adapted simulation({2, 2}, 3);
    const SequenceId adapted = simulation.add(with_adapter(1, 7)).at(0);
    const SequenceId plain = simulation.add(with_adapter(2, 0)).at(0);
    simulation.step();
    CHECK(simulation.state(plain) == SequenceState::running);
    CHECK(simulation.state(adapted) == SequenceState::waiting);
    CHECK(simulation.last_plan.adapters.size() == 2);
    simulation.run();
    CHECK(simulation.all_well());
    CHECK(simulation.stats().loads == 1);
    CHECK(simulation.stats().num_hot == 1);
    CHECK(simulation.stats().arrivals.cold == 1);
}

TEST_CASE("with nothing else to do a plan waits for the adapter") {
    Adapted simulation({2, 2}, 50);
    simulation.add(with_adapter(1, 7));
    simulation.step();
    CHECK(simulation.last_plan.entries.empty());
    CHECK(simulation.last_plan.awaits_adapters);
    simulation.run(20);
    CHECK(simulation.all_well());
}

TEST_CASE("a slot is taken from the adapter that was used least recently, never from one in use") {
    Adapted simulation({2, 4});
    for (const int32_t id : {1, 2, 1}) {
        simulation.add(with_adapter(static_cast<RequestId>(simulation.num_finished + 1), id));
        simulation.run();
    }
    simulation.add(with_adapter(8, 3));
    simulation.run();
    CHECK(simulation.stats().evictions == 1);
    simulation.add(with_adapter(9, 1));
    simulation.add(with_adapter(10, 2));
    CHECK(simulation.stats().arrivals.hot == 2);
    CHECK(simulation.stats().arrivals.warm == 1);
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("host memory holds no more than it may; what is dropped is loaded again") {
    Adapted simulation({1, 2});
    for (const int32_t id : {1, 2, 3, 1}) {
        simulation.add(with_adapter(static_cast<RequestId>(simulation.num_finished + 1), id));
        simulation.run();
        CHECK(simulation.stats().num_hot + simulation.stats().num_warm <= 2);
    }
    CHECK(simulation.stats().loads == 4);
    CHECK(simulation.all_well());
}

TEST_CASE("sequences of a placed adapter pass one that waits for a slot, but not for ever") {
    Adapted simulation({1, 4}, 0, 3);
    RequestId next = 1;
    simulation.add(with_adapter(next++, 1));
    simulation.step();
    const SequenceId waits = simulation.add(with_adapter(next++, 2)).at(0);
    int64_t passed = 0;
    for (int step = 0; step < 2000 && simulation.scheduler.find(waits) != nullptr &&
                       simulation.state(waits) == SequenceState::waiting;
         ++step) {
        if (simulation.scheduler.stats().num_waiting < 3) {
            simulation.add(with_adapter(next, 1, 4 + static_cast<int32_t>(next % 5)));
            ++next;
            ++passed;
        }
        simulation.step();
    }
    CHECK(passed > 8);
    CHECK(passed < 40);
    simulation.run();
    CHECK(simulation.all_well());
}

TEST_CASE("more adapters than slots in a step take turns") {
    Adapted simulation({2, 3}, 1);
    for (RequestId id = 1; id <= 30; ++id) {
        simulation.add(with_adapter(id, 1 + static_cast<int32_t>(id % 10)));
    }
    simulation.run(3000);
    CHECK(simulation.all_well());
    CHECK(simulation.num_finished == 30);
}

TEST_CASE("an adapter that cannot be loaded ends its sequences, and is tried again later") {
    Adapted simulation({2, 2});
    simulation.worker.adapters.broken = {5};
    simulation.add(with_adapter(1, 5));
    simulation.add(with_adapter(2, 6));
    simulation.run();
    CHECK(simulation.finished.at(1).finish_reason == FinishReason::error);
    CHECK(simulation.finished.at(2).finish_reason == FinishReason::length);
    CHECK(simulation.stats().failures == 1);
    simulation.worker.adapters.broken.clear();
    simulation.add(with_adapter(3, 6));
    simulation.run();
    simulation.add(with_adapter(4, 5));
    simulation.run();
    CHECK(simulation.finished.at(4).finish_reason == FinishReason::length);
    CHECK(simulation.all_well());
}

TEST_CASE("a retired adapter leaves when its last request has ended") {
    Adapted simulation({2, 2});
    simulation.add(with_adapter(1, 5));
    simulation.step();
    simulation.scheduler.retire_adapter(5);
    simulation.run();
    CHECK(simulation.all_well());
    simulation.add(with_adapter(2, 0));
    simulation.run();
    CHECK(simulation.stats().num_hot == 0);
}

TEST_CASE("a new worker gets the adapters anew") {
    Adapted simulation({2, 2});
    simulation.add(with_adapter(1, 5, 20));
    for (int step = 0; step < 4; ++step) simulation.step();
    simulation.scheduler.reset_worker();
    simulation.results.clear();
    simulation.worker.restart();
    simulation.run();
    CHECK(simulation.stats().loads == 2);
    CHECK(simulation.all_well());
}

}  // namespace
}  // namespace nvllm
