// Resizes of the cache: in order, when the scheduler can, with the error of an impossible one.
#include "lib/engine/loop/pending_resizes.h"

#include <doctest/doctest.h>

#include "tests/lib/engine/loop/loop_testing.h"

using namespace nvllm;
using namespace nvllm::test;

namespace {

std::future<void> ask(PendingResizes& resizes, int32_t num_blocks) {
    ResizeMessage resize{{num_blocks}, {}};
    std::future<void> done = resize.done.get_future();
    resizes.add(std::move(resize));
    return done;
}

bool is_ready(const std::future<void>& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

TEST_CASE("a resize is done between steps and reported afterwards") {
    LoopParts parts;
    const std::future<void> done = ask(parts.resizes, 32);
    CHECK_FALSE(parts.resizes.empty());
    parts.resizes.run(parts.scheduler, 0.0);
    CHECK(parts.resizes.empty());
    CHECK_FALSE(is_ready(done));
    parts.resizes.report_done();
    CHECK(is_ready(done));
}

TEST_CASE("resizes are done in their order, each after the plan of the one before") {
    LoopParts parts;
    const std::future<void> first = ask(parts.resizes, 32);
    const std::future<void> second = ask(parts.resizes, 48);
    parts.run();
    CHECK(parts.resizes.empty());
    CHECK(parts.cache.stats().blocks.total == 48);
    parts.resizes.report_done();
    CHECK(is_ready(first));
    CHECK(is_ready(second));
}

TEST_CASE("a cache that holds no running sequence is refused to the caller alone") {
    LoopParts parts;
    parts.add(40, 60);
    parts.steps.step();
    PendingResizes resizes;
    std::future<void> impossible = ask(resizes, 1);
    std::future<void> possible = ask(resizes, 48);
    resizes.run(parts.scheduler, 0.0);
    resizes.report_done();
    CHECK_THROWS_AS(impossible.get(), Error);
    CHECK(is_ready(possible));
}

TEST_CASE("dropped resizes break their promises") {
    PendingResizes resizes;
    std::future<void> dropped = ask(resizes, 8);
    resizes.clear();
    CHECK(resizes.empty());
    CHECK_THROWS_AS(dropped.get(), std::future_error);
}
