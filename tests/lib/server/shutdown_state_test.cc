// How a server comes to its end.
#include "lib/server/shutdown_state.h"

#include <doctest/doctest.h>

using namespace nvllm::server;

TEST_CASE("shutdown: a drain waits for responses until its deadline") {
    const auto now = ShutdownState::Clock::now();
    const auto deadline = now + std::chrono::seconds(30);
    ShutdownState shutdown;
    CHECK_FALSE(shutdown.has_begun());
    CHECK_FALSE(shutdown.has_drained(0, now));
    CHECK(shutdown.begin());
    CHECK(shutdown.has_begun());
    CHECK_FALSE(shutdown.begin());
    CHECK_FALSE(shutdown.has_drained(0, now));  // there is no deadline yet
    shutdown.wait_until(deadline);
    CHECK_FALSE(shutdown.has_drained(2, now));
    CHECK(shutdown.has_drained(0, now));
    CHECK(shutdown.has_drained(2, deadline));
    CHECK_FALSE(shutdown.is_aborted());
}

TEST_CASE("shutdown: an abort is a shutdown that a drain does not begin again") {
    ShutdownState shutdown;
    shutdown.abort();
    CHECK(shutdown.has_begun());
    CHECK(shutdown.is_aborted());
    CHECK_FALSE(shutdown.begin());
}
