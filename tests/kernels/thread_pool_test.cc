// Tests of the thread pool: every item once, exceptions, misuse, sleeping and waking.
#include "kernels/thread_pool.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "kernels/error.h"
#include "testing.h"

using nvllm::ThreadPool;

namespace {

bool runs_each_item_once(ThreadPool& pool, int64_t count, int64_t grain) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    std::atomic<bool> ranges_right{true};
    pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int thread) {
        const bool full = end - begin == grain || end == count;
        if (begin % grain != 0 || !full || thread < 0 || thread >= pool.num_threads())
            ranges_right = false;
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    bool once = true;
    for (const auto& visit : visits) once = once && visit == 1;
    return once && ranges_right;
}

}  // namespace

TEST_CASE("parallel_for runs every item once, in ranges of grain") {
    for (const int threads : {1, 2, 4, 7}) {
        ThreadPool pool(threads);
        CHECK(pool.num_threads() == threads);
        for (const int64_t count : {1, 2, 3, 17, 1000}) {
            for (const int64_t grain : {1, 2, 7, 2000})
                CHECK(runs_each_item_once(pool, count, grain));
        }
        bool called = false;
        pool.parallel_for(0, 1, [&](int64_t, int64_t, int) { called = true; });
        CHECK(!called);
    }
}

TEST_CASE("many short regions in a row, with more threads than cores") {
    ThreadPool pool(8);
    std::atomic<int64_t> total{0};
    for (int region = 0; region < 5000; ++region) {
        pool.parallel_for(8, 1, [&](int64_t begin, int64_t, int) { total += begin; });
    }
    CHECK(total == 5000 * 28);
}

TEST_CASE("workers wake from sleep") {
    ThreadPool pool(2);
    for (int i = 0; i < 5; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        CHECK(runs_each_item_once(pool, 100, 1));
    }
}

TEST_CASE("two workers really take part") {
    ThreadPool pool(2);
    std::atomic<int> inside{0};
    // Each range waits for the other, so one thread alone could not finish.
    pool.parallel_for(2, 1, [&](int64_t, int64_t, int) {
        ++inside;
        while (inside < 2) std::this_thread::yield();
    });
    CHECK(inside == 2);
}

TEST_CASE("an exception reaches the caller and the pool stays usable") {
    for (const int threads : {1, 3}) {
        ThreadPool pool(threads);
        for (int i = 0; i < 20; ++i) {
            CHECK_THROWS_AS(pool.parallel_for(50, 1,
                                              [&](int64_t begin, int64_t, int) {
                                                  if (begin >= 10) throw std::runtime_error("x");
                                              }),
                            std::runtime_error);
            CHECK(runs_each_item_once(pool, 30, 4));
        }
    }
}

TEST_CASE("a region inside a region is refused") {
    for (const int threads : {1, 2}) {
        ThreadPool pool(threads);
        CHECK_THROWS_AS(pool.parallel_for(4, 1,
                                          [&](int64_t, int64_t, int) {
                                              pool.parallel_for(1, 1, [](int64_t, int64_t, int) {});
                                          }),
                        nvllm::Error);
        CHECK(runs_each_item_once(pool, 10, 3));
    }
    CHECK_THROWS_AS(ThreadPool(0), nvllm::Error);
}

TEST_CASE("usable_cpu_count is between 1 and the machine's cores") {
    CHECK(nvllm::usable_cpu_count() >= 1);
    CHECK(nvllm::usable_cpu_count() <= static_cast<int>(std::thread::hardware_concurrency()));
}
