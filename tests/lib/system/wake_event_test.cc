// Sleeping until somebody rings.
#include "lib/system/wake_event.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

using namespace nvllm;

namespace {

constexpr std::chrono::milliseconds kLong{60'000};

}  // namespace

TEST_CASE("a ring ends the wait, also one that came before") {
    WakeEvent event;
    event.notify();
    event.notify();
    event.wait(std::nullopt, kLong);
    std::atomic<bool> rung = false;
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        rung = true;
        event.notify();
    });
    while (!rung) event.wait(std::nullopt, kLong);
    other.join();
    event.wait(std::nullopt, std::chrono::milliseconds(1));  // nobody rings
}

TEST_CASE("a descriptor that can be read, or whose other end is closed, ends the wait") {
    WakeEvent event;
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    REQUIRE(::write(ends[1], "x", 1) == 1);
    event.wait(ends[0], kLong);
    char read = 0;
    REQUIRE(::read(ends[0], &read, 1) == 1);
    ::close(ends[1]);
    event.wait(ends[0], kLong);
    ::close(ends[0]);
}
