// Tests of the thread pool: every item once, exceptions, misuse, sleeping and waking, processors.
#include "kernels/host/thread_pool.h"

#include <time.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "kernels/error.h"
#include "kernels/host/cpu_count.h"
#include "tests/kernels/testing.h"

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

double cpu_ms(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// One range for each thread, on which the workers stay while the caller has long been done.
template <typename Last>
void keep_caller_waiting(ThreadPool& pool, std::chrono::milliseconds stay, Last at_last) {
    std::atomic<int> inside{0};
    pool.parallel_for(pool.num_threads(), 1, [&](int64_t, int64_t, int thread) {
        ++inside;
        while (inside < pool.num_threads()) std::this_thread::yield();
        if (thread == 0) return;
        std::this_thread::sleep_for(stay);
        at_last();
    });
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

TEST_CASE("each thread begins with the ranges of its own share") {
    for (const int threads : {2, 3}) {
        ThreadPool pool(threads);
        for (const int64_t count : {3, 12, 31}) {
            std::vector<std::atomic<int64_t>> first(static_cast<size_t>(threads));
            for (auto& range : first) range = -1;
            std::atomic<int> begun{0};
            pool.parallel_for(count, 1, [&](int64_t begin, int64_t, int thread) {
                if (first[static_cast<size_t>(thread)] >= 0) return;
                first[static_cast<size_t>(thread)] = begin;
                ++begun;
                while (begun < threads) std::this_thread::yield();
            });
            for (int thread = 0; thread < threads; ++thread) {
                CHECK(first[static_cast<size_t>(thread)] == count * thread / threads);
            }
        }
    }
}

TEST_CASE("a thread that is done helps the others") {
    ThreadPool pool(2);
    std::atomic<int> done{0};
    // The first range, which is the caller's, waits for all others.
    pool.parallel_for(40, 1, [&](int64_t begin, int64_t, int) {
        while (begin == 0 && done < 39) std::this_thread::yield();
        ++done;
    });
    CHECK(done == 40);
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

TEST_CASE("a caller that waits long sleeps, and is woken by the last that leaves") {
    for (const int threads : {2, 5}) {
        ThreadPool pool(threads);
        std::atomic<int> done{0};
        const double before_ms = cpu_ms(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < 3; ++i) {
            keep_caller_waiting(pool, std::chrono::milliseconds(40), [&] { ++done; });
        }
        CHECK(done == 3 * (threads - 1));
        CHECK(cpu_ms(CLOCK_THREAD_CPUTIME_ID) - before_ms < 60.0);
        CHECK(runs_each_item_once(pool, 100, 3));
    }
}

TEST_CASE("exceptions reach a caller that sleeps") {
    ThreadPool pool(3);
    for (int i = 0; i < 5; ++i) {
        CHECK_THROWS_AS(keep_caller_waiting(pool, std::chrono::milliseconds(2),
                                            [] { throw std::runtime_error("x"); }),
                        std::runtime_error);
        CHECK(runs_each_item_once(pool, 30, 4));
    }
}

TEST_CASE("callers and workers that sleep and wake all the time") {
    for (const int threads : {2, 16}) {
        ThreadPool pool(threads);
        std::atomic<int64_t> total{0};
        for (int region = 0; region < 3000; ++region) {
            pool.parallel_for(threads + region % 3, 1, [&](int64_t begin, int64_t, int) {
                if (begin == region % threads && region % 50 == 0) {
                    std::this_thread::sleep_for(std::chrono::microseconds(200));
                }
                ++total;
            });
            if (region % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(150));
        }
        CHECK(total == 3000 * (threads + 1));
    }
}

TEST_CASE("a pool with nothing to do uses no processor") {
    ThreadPool pool(4);
    CHECK(runs_each_item_once(pool, 100, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const double before_ms = cpu_ms(CLOCK_PROCESS_CPUTIME_ID);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - before_ms < 10.0);
}

TEST_CASE("threads run where their placement says") {
    const nvllm::CpuList allowed = nvllm::allowed_cpus();
    REQUIRE(!allowed.empty());
    nvllm::CpuPlacement placement = nvllm::free_placement(3);
    placement.threads = {{allowed.front()}, {allowed.back()}, {}};
    std::thread([&] {
        ThreadPool pool(placement);
        CHECK(pool.bind_caller().empty());
        std::vector<nvllm::CpuList> seen(3);
        std::atomic<int> inside{0};
        pool.parallel_for(3, 1, [&](int64_t, int64_t, int thread) {
            ++inside;
            while (inside < 3) std::this_thread::yield();
            seen[static_cast<size_t>(thread)] = nvllm::allowed_cpus();
        });
        CHECK(seen[0] == placement.threads[0]);
        CHECK(seen[1] == placement.threads[1]);
        CHECK(seen[2] == allowed);
    }).join();
}

TEST_CASE("usable_cpu_count is between 1 and the machine's cores") {
    CHECK(nvllm::usable_cpu_count() >= 1);
    CHECK(nvllm::usable_cpu_count() <= static_cast<int>(std::thread::hardware_concurrency()));
}
