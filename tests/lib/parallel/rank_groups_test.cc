// Which ranks are whose neighbours.
#include "lib/parallel/rank_groups.h"

#include <doctest/doctest.h>

#include <latch>
#include <thread>

#include "kernels/host/thread_collectives.h"

using namespace nvllm;

TEST_CASE("ranks of a stage sum together, and stages hand on") {
    const ParallelSizes sizes{.tensor = 2, .pipeline = 3};
    CHECK(sizes.num_ranks() == 6);
    CHECK(sizes.output_rank() == 4);
    RankSetup setup;
    setup.sizes = sizes;
    setup.group_ids = make_group_ids(thread_collectives(), sizes);
    std::vector<float> sums(6), received(6, -1.0f);
    std::latch done(6);  // a rank that leaves ends the others' waiting
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < 6; ++rank) {
        threads.emplace_back([&, rank, own = setup]() mutable {
            own.rank = rank;
            const RankGroups groups(own, 0, 0);
            float value = static_cast<float>(rank);
            const TensorView view(&value, DType::f32, {1});
            groups.tensor()->all_reduce(nullptr, view);
            sums[static_cast<size_t>(rank)] = value;
            const PipelineLink& link = *groups.pipeline();
            const TensorView from_before(&received[static_cast<size_t>(rank)], DType::f32, {1});
            if (link.previous) link.ranks->receive(nullptr, from_before, *link.previous);
            if (link.next) link.ranks->send(nullptr, view, *link.next);
            CHECK(groups.bytes_sent() > 0);
            done.arrive_and_wait();
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(sums == std::vector<float>{1, 1, 5, 5, 9, 9});
    CHECK(received == std::vector<float>{-1, -1, 1, 1, 5, 5});
}

TEST_CASE("experts are those of all replicas that share them out") {
    RankSetup setup;
    setup.sizes = {.tensor = 2, .pipeline = 1};
    setup.sharing.count = 2;
    CHECK_FALSE(setup.is_alone());
    CHECK(setup.num_started() == 4);
    setup.group_ids = make_group_ids(thread_collectives(), setup.sizes, 2);
    std::vector<float> of_tensor(4), of_experts(4);
    std::latch done(4);
    std::vector<std::thread> threads;
    for (int32_t number = 0; number < 4; ++number) {
        threads.emplace_back([&, number, own = setup]() mutable {
            own.sharing.index = number / 2;
            own.rank = number % 2;
            CHECK(own.started_as(own.rank) == number);
            CHECK(own.expert_rank() == number);
            const RankGroups groups(own, 0, 0);
            const auto sum = [&](const RankGroup& group) {
                float value = static_cast<float>(number);
                group.all_reduce(nullptr, TensorView(&value, DType::f32, {1}));
                return value;
            };
            of_tensor[static_cast<size_t>(number)] = sum(*groups.tensor());
            of_experts[static_cast<size_t>(number)] = sum(*groups.experts());
            done.arrive_and_wait();
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(of_tensor == std::vector<float>{1, 1, 5, 5});
    CHECK(of_experts == std::vector<float>{6, 6, 6, 6});
}

TEST_CASE("a rank alone joins nothing") {
    const RankGroups groups({}, 0, 0);
    CHECK(groups.tensor() == nullptr);
    CHECK(groups.pipeline() == nullptr);
    CHECK(groups.bytes_sent() == 0);
}
