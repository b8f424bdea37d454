// The bounded queue: order, bounds, closing, many threads.
#include "lib/base/queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

using namespace nvllm;

TEST_CASE("items come out in order, within the bound") {
    BoundedQueue<std::unique_ptr<int>> queue(2);
    CHECK(queue.push(std::make_unique<int>(1)));
    CHECK(queue.try_push(std::make_unique<int>(2)));
    auto third = std::make_unique<int>(3);
    CHECK(!queue.try_push(std::move(third)));
    CHECK(third != nullptr);
    CHECK(queue.size() == 2);
    CHECK(**queue.pop() == 1);
    CHECK(**queue.try_pop() == 2);
    CHECK(!queue.try_pop());
    CHECK(!queue.pop_for(std::chrono::milliseconds(1)));
}

TEST_CASE("a closed queue refuses new items and gives out the old ones") {
    BoundedQueue<int> queue(4);
    queue.push(1);
    queue.close();
    CHECK(queue.closed());
    CHECK(!queue.push(2));
    CHECK(!queue.try_push(2));
    CHECK(queue.pop() == 1);
    CHECK(!queue.pop());
}

TEST_CASE("closing wakes those who wait") {
    BoundedQueue<int> empty(1), full(1);
    full.push(1);
    std::atomic<int> num_woken = 0;
    std::thread consumer([&] { num_woken += empty.pop().has_value() ? 0 : 1; });
    std::thread producer([&] { num_woken += full.push(2) ? 0 : 1; });
    empty.close();
    full.close();
    consumer.join();
    producer.join();
    CHECK(num_woken == 2);
}

TEST_CASE("many producers and consumers lose nothing and make nothing up") {
    constexpr int kThreads = 4, kItems = 2000;
    BoundedQueue<int> queue(3);
    std::atomic<int64_t> sum = 0;
    std::atomic<int> count = 0;
    std::vector<std::thread> producers, consumers;
    for (int thread = 0; thread < kThreads; ++thread) {
        producers.emplace_back([&, thread] {
            for (int item = 0; item < kItems; ++item) queue.push(thread * kItems + item);
        });
        consumers.emplace_back([&] {
            while (const auto item = queue.pop()) {
                sum += *item;
                ++count;
            }
        });
    }
    for (std::thread& thread : producers) thread.join();
    queue.close();
    for (std::thread& thread : consumers) thread.join();
    constexpr int64_t kTotal = int64_t{kThreads} * kItems;
    CHECK(count == kTotal);
    CHECK(sum == kTotal * (kTotal - 1) / 2);
}
