// Shuffles, votes and reductions, against values written down lane by lane.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/kernels/cuda/schedules.h"
#include "tests/kernels/cuda/wrapper_kernels.h"

using wrappers::WarpOperation;

namespace {

// Two warps; thread i holds 7 i + 1.
uint32_t value_of(int thread) { return static_cast<uint32_t>(7 * thread + 1); }

std::vector<uint32_t> run(WarpOperation operation, int argument) {
    std::vector<uint32_t> values(64);
    for (int i = 0; i < 64; ++i) values[static_cast<size_t>(i)] = value_of(i);
    std::vector<uint32_t> out(64, 0xdead);
    wrappers::warp_operation(operation, values.data(), out.data(), argument);
    return out;
}

void check_each(WarpOperation operation, int argument,
                const std::function<uint32_t(int)>& expected) {
    CAPTURE(static_cast<int>(operation));
    CAPTURE(argument);
    under_all_schedules([&] {
        const std::vector<uint32_t> out = run(operation, argument);
        for (int i = 0; i < 64; ++i) {
            CAPTURE(i);
            CHECK(out[static_cast<size_t>(i)] == expected(i));
        }
    });
}

}  // namespace

TEST_CASE("a shuffle takes the value of a lane of the own warp") {
    for (const int lane : {0, 5, 31}) {
        check_each(WarpOperation::shuffle, lane,
                   [&](int i) { return value_of(i < 32 ? lane : 32 + lane); });
    }
}

TEST_CASE("shuffle_xor exchanges lanes") {
    check_each(WarpOperation::shuffle_xor, 1,
               [](int i) { return value_of(i % 2 == 0 ? i + 1 : i - 1); });
    check_each(WarpOperation::shuffle_xor, 16,
               [](int i) { return value_of(i % 32 < 16 ? i + 16 : i - 16); });
}

TEST_CASE("shuffle_down and shuffle_up keep the own value beyond the warp's ends") {
    check_each(WarpOperation::shuffle_down, 3,
               [](int i) { return value_of(i % 32 < 29 ? i + 3 : i); });
    check_each(WarpOperation::shuffle_up, 4,
               [](int i) { return value_of(i % 32 >= 4 ? i - 4 : i); });
}

TEST_CASE("votes see the lanes of the own warp") {
    // 7 i + 1 is a multiple of 3 where i % 3 == 2.
    uint32_t first = 0;
    uint32_t second = 0;
    for (int lane = 0; lane < 32; ++lane) {
        if (lane % 3 == 2) first |= 1u << lane;
        if ((lane + 32) % 3 == 2) second |= 1u << lane;
    }
    check_each(WarpOperation::ballot, 0, [&](int i) { return i < 32 ? first : second; });
    check_each(WarpOperation::any, 0, [](int) { return 0u; });  // 40 is none of the values
    check_each(WarpOperation::all, 0, [](int) { return 0u; });
}

TEST_CASE("lanes and warps are counted along the block") {
    check_each(WarpOperation::lane, 0, [](int i) { return static_cast<uint32_t>(i % 32); });
    check_each(WarpOperation::warp, 0, [](int i) { return static_cast<uint32_t>(i / 32); });
}

TEST_CASE("lanes under different masks go their own ways") {
    under_all_schedules([] {
        std::vector<uint32_t> values(32);
        for (uint32_t i = 0; i < 32; ++i) values[i] = i;
        std::vector<uint32_t> out(32);
        wrappers::sums_of_halves(values.data(), out.data());
        for (size_t i = 0; i < 32; ++i) CHECK(out[i] == (i % 2 == 0 ? 240u : 256u));
    });
}

TEST_CASE("a block's sum and maximum reach every thread") {
    for (const int threads : {32, 64, 256, 1024}) {
        under_all_schedules([&] {
            CAPTURE(threads);
            std::vector<float> values(static_cast<size_t>(threads));
            float sum = 0;
            for (int i = 0; i < threads; ++i)
                sum += values[static_cast<size_t>(i)] = static_cast<float>(i % 13 - 20);
            std::vector<float> out(2);
            wrappers::block_reductions(values.data(), out.data(), threads);
            CHECK(out[0] == sum);
            CHECK(out[1] == -8.0f);
        });
    }
}
