// Adapters of a worker: what is begun ends, and in what.
#include "lib/execute/adapters/adapter_store.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "kernels/host/thread_pool.h"
#include "lib/model/weights/dummy_source.h"
#include "tests/lib/checkpoint/adapter/written_adapter.h"

namespace nvllm {
namespace {

using test::WrittenAdapter;

struct Store {
    explicit Store(AdapterLimits limits = {2, 16}) : store(made(source), limits, DType::f32, {}) {
        adapter.add_module("a.q_proj", 2, 4, 6);
        folder = adapter.written();
        digest = read_adapter(folder).digest;
    }
    static std::unique_ptr<const LoraTargets> made(WeightSource& source) {
        auto targets = std::make_unique<LoraTargets>();
        const std::vector<LinearSpec> specs = {{"a.q_proj", 4, 6, false, ShardAxis::none}};
        targets->add(source, specs);
        return targets;
    }
    void begin(std::initializer_list<AdapterChange> changes) {
        store.begin(std::vector<AdapterChange>(changes), nullptr);
    }

    ThreadPool threads{1};
    DummySource source{1, DType::f32, threads};
    AdapterStore store;
    WrittenAdapter adapter{2};
    std::string folder;
    uint64_t digest = 0;
};

TEST_CASE("an adapter is loaded and placed; both are told of") {
    Store test;
    test.begin(
        {{AdapterAction::load, 7, 0, test.folder, test.digest}, {AdapterAction::place, 7, 2}});
    CHECK_FALSE(test.store.fault_of(7).has_value());
    test.store.await(7, nullptr);
    CHECK(test.store.slot_of(7) == 2);
    const auto events = test.store.take_events();
    REQUIRE(events.size() == 2);
    CHECK(events[0].stage == AdapterStage::loaded);
    CHECK(events[0].bytes > 0);
    CHECK(events[1].stage == AdapterStage::placed);
    CHECK(test.store.slots().linears()[0].pairs != nullptr);
    test.begin({{AdapterAction::clear, 7}});
    CHECK(test.store.slot_of(7) == 0);
    CHECK(test.store.slots().linears()[0].pairs == nullptr);
    test.begin({{AdapterAction::place, 7, 1}});
    CHECK(test.store.slot_of(7) == 1);
    test.begin({{AdapterAction::drop, 7}});
    CHECK(test.store.fault_of(7).has_value());
}

TEST_CASE("files that are not there, or have changed since, are a fault of the adapter") {
    Store test;
    test.begin({{AdapterAction::load, 1, 0, test.folder, test.digest + 1},
                {AdapterAction::load, 2, 0, test.folder + "/nowhere", test.digest},
                {AdapterAction::place, 1, 1}});
    test.store.await(1, nullptr);
    test.store.await(2, nullptr);
    CHECK(test.store.fault_of(1)->message.find("changed") != std::string::npos);
    CHECK(test.store.fault_of(2)->kind == ErrorKind::not_found);
    const auto events = test.store.take_events();
    REQUIRE(events.size() == 2);
    CHECK(events[0].stage == AdapterStage::failed);
    // The next try may find them.
    test.begin({{AdapterAction::drop, 1},
                {AdapterAction::load, 1, 0, test.folder, test.digest},
                {AdapterAction::place, 1, 1}});
    test.store.await(1, nullptr);
    CHECK(test.store.slot_of(1) == 1);
}

TEST_CASE("what was dropped while it was loaded is nowhere, and waiting ends in time") {
    Store test;
    test.begin({{AdapterAction::load, 1, 0, test.folder, test.digest},
                {AdapterAction::place, 1, 1},
                {AdapterAction::drop, 1}});
    test.store.await_any(std::chrono::milliseconds(50), nullptr);
    CHECK(test.store.slot_of(1) == 0);
    CHECK(test.store.take_events().empty());
    test.begin({{AdapterAction::load, 2, 0, test.folder, test.digest}});
    test.store.clear(nullptr);
    CHECK(test.store.fault_of(2).has_value());
}

}  // namespace
}  // namespace nvllm
