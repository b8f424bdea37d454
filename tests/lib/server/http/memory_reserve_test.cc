// The reserve as operator new asks for it: by the process's new-handler.
#include "lib/server/http/memory_reserve.h"

#include <doctest/doctest.h>

#include <new>

namespace nvllm::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReserveBytes = size_t{4} << 20;
constexpr std::chrono::milliseconds kPatience{50};
// More than the reserve has pieces.
constexpr int kManyTimes = 1000;

// What operator new does when it finds no memory; false when it would throw.
bool finds_memory() {
    try {
        std::get_new_handler()();
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

bool has_handler() { return std::get_new_handler() != nullptr; }

TEST_CASE("memory reserve: is let go piece by piece and taken again") {
    MemoryReserve reserve(kReserveBytes, kPatience);
    CHECK(reserve.is_whole());
    CHECK(finds_memory());
    CHECK_FALSE(reserve.is_whole());
    CHECK_FALSE(reserve.is_low());
    int count = 1;
    while (!reserve.is_low() && count < kManyTimes) {
        REQUIRE(finds_memory());
        ++count;
    }
    CHECK(count > 2);
    CHECK(count < kManyTimes);
    CHECK(reserve.refill());
    CHECK_FALSE(reserve.is_low());
}

TEST_CASE("memory reserve: when all is gone, allocations fail after so much patience") {
    MemoryReserve reserve(kReserveBytes, kPatience);
    const Clock::time_point begin = Clock::now();
    int count = 0;
    while (finds_memory() && count < kManyTimes) ++count;
    CHECK(count < kManyTimes);
    CHECK(Clock::now() - begin >= kPatience);
    CHECK(reserve.is_low());
    CHECK(reserve.refill());
    CHECK(finds_memory());
}

TEST_CASE("memory reserve: what can be refused does without, at once") {
    MemoryReserve reserve(kReserveBytes, kPatience);
    {
        const WithoutReserve without;
        CHECK_FALSE(finds_memory());
        {
            const WithoutReserve again;
            CHECK_FALSE(finds_memory());
        }
        CHECK_FALSE(finds_memory());
    }
    CHECK(finds_memory());
}

// Looks for memory where exceptions meet destructors.
struct Leaving {
    bool& found;
    ~Leaving() { found = finds_memory(); }
};

TEST_CASE("memory reserve: destructors that an exception calls have it") {
    MemoryReserve reserve(kReserveBytes, kPatience);
    const WithoutReserve without;
    bool found = false;
    try {
        const Leaving leaving{found};
        throw std::bad_alloc();
    } catch (const std::bad_alloc&) {
    }
    CHECK(found);
}

TEST_CASE("memory reserve: the system is asked, and nothing kept") {
    CHECK(can_have_memory(4096));
    CHECK_FALSE(can_have_memory(size_t{1} << 60));
}

TEST_CASE("memory reserve: leaves nothing behind") {
    {
        const MemoryReserve reserve(kReserveBytes, kPatience);
        CHECK(has_handler());
    }
    CHECK_FALSE(has_handler());
    const MemoryReserve another(kReserveBytes, kPatience);
    CHECK(has_handler());
}

}  // namespace
}  // namespace nvllm::server
