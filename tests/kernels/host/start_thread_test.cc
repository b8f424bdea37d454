// Threads that the system refuses are errors that say what to do.
#include "kernels/host/start_thread.h"

#include <doctest/doctest.h>

#include <atomic>
#include <sstream>

#include "kernels/host/thread_pool.h"
#include "tests/error_of.h"
#include "tests/few_threads.h"
#include "tests/kernels/made_up_machine.h"

namespace {

using nvllm::ErrorKind;
using nvllm::test::error_of;
using nvllm::test::FewThreads;

std::string limits(const std::string& user_limit, const std::string& membership,
                   const testing::MadeUpMachine& machine) {
    std::istringstream lines(membership);
    return nvllm::describe_thread_limits(user_limit, lines, machine.root());
}

TEST_CASE("limits of threads, by the user and by control groups of both versions") {
    testing::MadeUpMachine machine;
    machine.write("pod/pids.max", "50\n");
    machine.write("pod/box/pids.max", "max\n");
    machine.write("pids/unit/pids.max", "7\n");
    CHECK(limits("", "", machine) == "none is set");
    CHECK(limits("100", "0::/\n", machine) == "ulimit -u 100");
    CHECK(limits("", "0::/pod/box\n", machine).starts_with("pids.max 50 of the control group"));
    CHECK(limits("9", "0::/pod\n8:pids:/unit\n", machine).starts_with("ulimit -u 9, pids.max 7"));
}

TEST_CASE("a thread that cannot be started is an error") {
    int ran = 0;
    {
        const FewThreads none(0);
        const std::string said =
            error_of(ErrorKind::unavailable, [&] { nvllm::start_thread([&] { ++ran; }).join(); });
        CHECK(said.find("--threads") != std::string::npos);
        error_of(ErrorKind::unavailable, [&] { nvllm::start_async([&] { ++ran; }).get(); });
    }
    CHECK(ran == 0);
    nvllm::start_thread([&] { ++ran; }).join();
    CHECK(nvllm::start_async([&] { return ++ran; }).get() == 2);
}

TEST_CASE("a pool that gets only some of its threads ends those and says so") {
    for (const uint64_t count : {0, 1, 3}) {
        const FewThreads few(count);
        error_of(ErrorKind::unavailable, [] { nvllm::ThreadPool pool(8); });
    }
    nvllm::ThreadPool pool(8);
    std::atomic<int> items = 0;
    pool.parallel_for(100, 1, [&](int64_t, int64_t, int) { ++items; });
    CHECK(items == 100);
}

}  // namespace
