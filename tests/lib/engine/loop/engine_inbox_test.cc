// Messages to the engine thread: their order, the sleep without them, and the end.
#include "lib/engine/loop/engine_inbox.h"

#include <doctest/doctest.h>

#include <thread>

using namespace nvllm;

namespace {

// A sleep that ends at once, and counts.
struct Sleeper {
    int num_sleeps = 0;
    std::function<void(WakeEvent&)> function() {
        return [this](WakeEvent&) { ++num_sleeps; };
    }
};

struct Inbox {
    EngineClock clock;
    EngineInbox inbox{clock, {}};
    std::vector<EngineMessage> messages;
    Sleeper sleeper;

    bool await(bool has_work = false) {
        messages.clear();
        return inbox.await(messages, has_work, sleeper.function());
    }
};

}  // namespace

TEST_CASE("an id says whose replica's it is") {
    EngineClock clock;
    EngineInbox first(clock, {0, 3});
    EngineInbox last(clock, {2, 3});
    CHECK(first.submit({}, {}) == 1);
    CHECK(first.submit({}, {}) == 4);
    CHECK(last.submit({}, {}) == 3);
    CHECK(last.submit({}, {}) == 6);
}

TEST_CASE("messages come in their order, and ids grow with them") {
    Inbox test;
    CHECK(test.inbox.submit({}, {}) == 1);
    CHECK(test.inbox.submit({}, {}) == 2);
    test.inbox.cancel(1);
    test.inbox.hold(2, true);
    CHECK(test.await());
    REQUIRE(test.messages.size() == 4);
    CHECK(std::get<SubmitMessage>(test.messages[0]).request.id == 1);
    CHECK(std::get<SubmitMessage>(test.messages[1]).request.id == 2);
    CHECK(std::get<CancelMessage>(test.messages[2]).id == 1);
    CHECK(std::get<HoldMessage>(test.messages[3]).is_held);
    CHECK(test.sleeper.num_sleeps == 0);
}

TEST_CASE("a request without a seed gets one, and a given seed stays") {
    Inbox test;
    Request seeded;
    seeded.sampling.seed = 5;
    test.inbox.submit(seeded, {});
    test.inbox.submit({}, {});
    REQUIRE(test.await());
    CHECK(std::get<SubmitMessage>(test.messages[0]).request.sampling.seed == 5);
    CHECK(std::get<SubmitMessage>(test.messages[1]).request.sampling.seed.has_value());
}

TEST_CASE("the thread sleeps only if there are neither messages nor work") {
    Inbox test;
    CHECK(test.await(true));
    CHECK(test.messages.empty());
    CHECK(test.sleeper.num_sleeps == 0);
    CHECK(test.await(false));
    CHECK(test.sleeper.num_sleeps == 1);
}

TEST_CASE("a message wakes the thread that sleeps") {
    EngineClock clock;
    EngineInbox inbox(clock, {});
    std::vector<EngineMessage> messages;
    const auto sleep = [](WakeEvent& event) { event.wait(std::nullopt, std::nullopt); };
    std::thread sender([&] { inbox.cancel(7); });
    while (messages.empty()) REQUIRE(inbox.await(messages, false, sleep));
    sender.join();
    CHECK(std::get<CancelMessage>(messages.at(0)).id == 7);
}

TEST_CASE("after the shutdown nothing is awaited, and promises are broken") {
    Inbox test;
    std::future<void> before = test.inbox.resize({4});
    test.inbox.shut_down();
    CHECK(test.inbox.is_shut_down());
    CHECK_FALSE(test.await(true));
    CHECK_THROWS_AS(test.inbox.snapshot(SnapshotDetail::full).get(), std::future_error);
    CHECK_THROWS_WITH_AS(test.inbox.resize({4}), doctest::Contains("shutting down"), Error);
    test.inbox.clear();
    CHECK_THROWS_AS(before.get(), std::future_error);
}
