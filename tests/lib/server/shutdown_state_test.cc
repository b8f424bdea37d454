// How a server comes to its end.
#include "lib/server/shutdown_state.h"

#include <doctest/doctest.h>

using namespace nvllm::server;

TEST_CASE("ending: a drain waits for answers until its deadline") {
    const auto now = ShutdownState::Clock::now();
    const auto deadline = now + std::chrono::seconds(30);
    ShutdownState ending;
    CHECK_FALSE(ending.has_begun());
    CHECK_FALSE(ending.has_drained(0, now));
    CHECK(ending.begin());
    CHECK(ending.has_begun());
    CHECK_FALSE(ending.begin());
    CHECK_FALSE(ending.has_drained(0, now));  // there is no deadline yet
    ending.wait_until(deadline);
    CHECK_FALSE(ending.has_drained(2, now));
    CHECK(ending.has_drained(0, now));
    CHECK(ending.has_drained(2, deadline));
    CHECK_FALSE(ending.is_aborted());
}

TEST_CASE("ending: an abort is an end that a drain does not begin again") {
    ShutdownState ending;
    ending.abort();
    CHECK(ending.has_begun());
    CHECK(ending.is_aborted());
    CHECK_FALSE(ending.begin());
}
