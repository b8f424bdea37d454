// Pools of tasks, also where the system allows fewer threads than they ask for.
#include "lib/base/task_pool.h"

#include <doctest/doctest.h>

#include <future>

#include "tests/error_of.h"
#include "tests/few_threads.h"

namespace nvllm {
namespace {

TEST_CASE("tasks run") {
    TaskPool pool(2, 4);
    std::promise<int> done;
    CHECK(pool.try_run([&] { done.set_value(3); }));
    CHECK(done.get_future().get() == 3);
}

TEST_CASE("a task pool that gets only some of its threads ends those and says so") {
    for (const uint64_t count : {0, 2}) {
        const test::FewThreads few(count);
        const std::string said =
            test::error_of(ErrorKind::unavailable, [] { const TaskPool pool(5, 1); });
        CHECK(said.find("a thread cannot be started") != std::string::npos);
    }
}

}  // namespace
}  // namespace nvllm
