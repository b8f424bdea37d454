// Ranks that are threads: every operation at 1, 2 and 4 ranks, and a rank that leaves.
#include "kernels/host/thread_collectives.h"

#include <functional>
#include <thread>
#include <vector>

#include "kernels/error.h"
#include "kernels/rank_sums.h"
#include "tests/kernels/collectives_checks.h"
#include "tests/kernels/testing.h"

using namespace nvllm;

namespace {

// Runs `rank` on a thread for each rank; what the ranks return, in their order.
std::vector<std::string> run_ranks(int num_ranks,
                                   const std::function<std::string(const RankGroup&)>& rank) {
    const CollectivesTable& table = thread_collectives();
    const GroupId id = table.make_id();
    std::vector<std::string> said(static_cast<size_t>(num_ranks));
    std::vector<std::thread> threads;
    for (int i = 0; i < num_ranks; ++i) {
        threads.emplace_back([&, i] {
            try {
                const RankGroup group(table, {.id = id, .rank = i, .num_ranks = num_ranks});
                said[static_cast<size_t>(i)] = rank(group);
            } catch (const Error& error) {
                said[static_cast<size_t>(i)] = error.what();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return said;
}

}  // namespace

TEST_CASE("operations between threads give what their contract says, at 1, 2 and 4 ranks") {
    for (const int num_ranks : {1, 2, 4}) {
        for (const std::string& wrong : run_ranks(num_ranks, test::find_wrong_operation)) {
            INFO(num_ranks << " ranks: " << wrong);
            CHECK(wrong.empty());
        }
    }
}

TEST_CASE("a sum has the same bits however its values are cut into messages") {
    constexpr int64_t kCount = 1000;
    const auto sums = [](int64_t piece) {
        std::vector<float> result(kCount);
        run_ranks(3, [&](const RankGroup& group) {
            std::vector<float> values;
            for (int64_t i = 0; i < kCount; ++i) {
                values.push_back(static_cast<float>(i * i % 977 - 400) /
                                 static_cast<float>(3 + 1000 * group.rank()));
            }
            for (int64_t first = 0; first < kCount; first += piece) {
                const int64_t count = std::min(piece, kCount - first);
                group.all_reduce(nullptr, TensorView(values.data() + first, DType::f32, {count}));
            }
            if (group.rank() == 1) result = values;
            return std::string();
        });
        return result;
    };
    const std::vector<float> whole = sums(kCount);
    CHECK(sums(1) == whole);
    CHECK(sums(333) == whole);
}

TEST_CASE("a rank that leaves ends the waiting of the others") {
    const std::vector<std::string> said = run_ranks(3, [](const RankGroup& group) {
        if (group.rank() == 0) return std::string("left");
        std::vector<float> values(10);
        const TensorView view(values.data(), DType::f32, {10});
        if (group.rank() == 1) {
            group.all_reduce(nullptr, view);
        } else {
            group.receive(nullptr, view, 0);
        }
        return std::string("went on");
    });
    CHECK(said[0] == "left");
    CHECK(said[1].find("left the group") != std::string::npos);
    CHECK(said[2].find("left the group") != std::string::npos);
}

TEST_CASE("ids differ, and ranks that join with other numbers of ranks are refused") {
    const CollectivesTable& table = thread_collectives();
    CHECK(table.make_id().bytes != table.make_id().bytes);
    CHECK(table.look().fault.empty());
    const GroupId id = table.make_id();
    std::vector<int> are_refused(2);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&, i] {
            try {
                const RankGroup group(table, {.id = id, .rank = i, .num_ranks = 2 + i});
            } catch (const Error&) {
                are_refused[static_cast<size_t>(i)] = 1;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(are_refused[0] == 1);
    CHECK(are_refused[1] == 1);
}

TEST_CASE("slices of ranks cover all values once") {
    for (const int64_t count : {0, 1, 3, 8, 1000}) {
        for (const int num_ranks : {1, 2, 4, 7}) {
            int64_t next = 0;
            for (int rank = 0; rank < num_ranks; ++rank) {
                const RankSlice slice = slice_of_rank(count, rank, num_ranks);
                CHECK(slice.count >= 0);
                if (slice.count > 0) CHECK(slice.first == next);
                next += slice.count;
            }
            CHECK(next == count);
        }
    }
}

TEST_CASE("a rank counts what others read of it") {
    const auto sent_by = [](const RankGroup& group) {
        std::vector<float> values(12);
        const TensorView view = testing::view(values, {12});
        group.all_reduce(nullptr, view);
        uint64_t expected = 2 * 2 * 12 / 3 * sizeof(float);  // 2 (N - 1) / N of the values
        bool is_right = group.bytes_sent() == expected;
        std::vector<float> gathered(36);
        group.all_gather(nullptr, view, testing::view(gathered, {3, 12}));
        expected += 2 * sizeof(float) * 12;
        is_right = is_right && group.bytes_sent() == expected;
        group.broadcast(nullptr, view, 1);
        if (group.rank() == 1) expected += 2 * sizeof(float) * 12;
        is_right = is_right && group.bytes_sent() == expected;
        return is_right ? std::string() : std::to_string(group.bytes_sent());
    };
    for (const std::string& wrong : run_ranks(3, sent_by)) CHECK(wrong == "");
}

TEST_CASE("ranks that wait for one that cannot join get an error") {
    const CollectivesTable& table = thread_collectives();
    const GroupId id = table.make_id();
    std::string said;
    std::thread waiting([&] {
        try {
            const RankGroup group(table, {.id = id, .rank = 0, .num_ranks = 2});
        } catch (const Error& error) {
            said = error.what();
        }
    });
    abandon_thread_group(id);
    waiting.join();
    CHECK(said.find("has left") != std::string::npos);
}
