// Tests of the element-wise ops and of table look-up.
#include "kernels/ops/elementwise.h"

#include <cmath>

#include "kernels/error.h"
#include "kernels/ops/embedding.h"
#include "kernels/random.h"
#include "testing.h"

using namespace nvllm;
using testing::Buffer;

TEST_CASE("add on strided rows") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        for (const int64_t width : {1, 7, 16, 33, 300}) {
            std::vector<float> x = testing::Random(1).values(3 * width),
                               y = testing::Random(2).values(3 * (width + 2));
            std::vector<float> expected = y;
            for (int64_t t = 0; t < 3; ++t) {
                for (int64_t i = 0; i < width; ++i) {
                    expected[static_cast<size_t>(t * (width + 2) + i)] +=
                        x[static_cast<size_t>(t * width + i)];
                }
            }
            ops::add(machine.context(), testing::view(x, {3, width}),
                     testing::matrix(y, 3, width, width + 2));
            CHECK(testing::same_bits(y, expected));
        }
    });
}

TEST_CASE("soft_cap is cap * tanh(x / cap), small and large") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        std::vector<float> x = testing::Random(3).values(2000, 100.0f);
        for (float magnitude = 1e-20f; magnitude < 1e20f; magnitude *= 2) x.push_back(-magnitude);
        const std::vector<float> before = x;
        ops::soft_cap(machine.context(), 30.0f, testing::view(x, {static_cast<int64_t>(x.size())}));
        for (size_t i = 0; i < x.size(); ++i) {
            REQUIRE(testing::close(x[i], 30.0 * std::tanh(before[i] / 30.0), 1e-6));
        }
    });
}

TEST_CASE("scale and scale_rows multiply rows in place and leave what is between them") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        for (const int64_t width : {1, 7, 33, 300}) {
            const std::vector<float> x = testing::Random(7).values(3 * (width + 2));
            std::vector<float> scaled = x, by_row = x, factors = {0.5f, -3.0f, 0.0f};
            ops::scale(machine.context(), 0.22f, testing::matrix(scaled, 3, width, width + 2));
            ops::scale_rows(machine.context(), testing::view(factors, {3}),
                            testing::matrix(by_row, 3, width, width + 2));
            for (size_t i = 0; i < x.size(); ++i) {
                const auto row = i / static_cast<size_t>(width + 2);
                const bool inside = i % static_cast<size_t>(width + 2) < static_cast<size_t>(width);
                CHECK(scaled[i] == (inside ? x[i] * 0.22f : x[i]));
                CHECK(by_row[i] == (inside ? x[i] * factors[row] : x[i]));
            }
        }
    });
}

TEST_CASE("gather_rows") {
    testing::Machine machine;
    std::vector<float> x = testing::Random(4).values(6 * 10), out(3 * 9);
    std::vector<int32_t> rows = {5, 0, 5};
    ops::gather_rows(machine.context(), testing::matrix(x, 6, 9, 10), testing::view(rows, {3}),
                     testing::view(out, {3, 9}));
    for (size_t i = 0; i < 9; ++i) {
        CHECK(out[i] == x[50 + i]);
        CHECK(out[9 + i] == x[i]);
        CHECK(out[18 + i] == x[50 + i]);
    }
    rows[1] = 6;
    CHECK_THROWS_AS(ops::gather_rows(machine.context(), testing::view(x, {6, 10}).columns(0, 9),
                                     testing::view(rows, {3}), testing::view(out, {3, 9})),
                    Error);
}

TEST_CASE("fill_random takes what the bits of counters name, whatever the threads") {
    for (const DType dtype : testing::kFloatTypes) {
        for (const int threads : {1, 3}) {
            testing::Machine machine(threads);
            const int64_t count = 70'003;
            Buffer table(dtype, testing::Random(6).values(64, 9.0f)), out(dtype, count);
            ops::fill_random(machine.context(), 77, table.view({64}), out.view({count}));
            bool right = true;
            for (int64_t i = 0; i < count; ++i) {
                const uint64_t bits = mixed_bits(77 + static_cast<uint64_t>(i / 4 * 4));
                right = right && out[i] == table[static_cast<int64_t>(bits >> 16 * (i % 4) & 63)];
            }
            CHECK(right);
            CHECK_THROWS_AS(ops::fill_random(machine.context(), 77, table.view({8, 8}).rows(0, 3),
                                             out.view({count})),
                            Error);
        }
    }
}

TEST_CASE("convert between all float types") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        for (const DType from : testing::kFloatTypes) {
            for (const DType to : testing::kFloatTypes) {
                for (const int64_t count : {1, 15, 300, 40000}) {
                    Buffer x(from, testing::Random(5).values(count, 9.0f));
                    Buffer out(to, count);
                    ops::convert(machine.context(), x.view({count}), out.view({count}));
                    Buffer expected(to, count);
                    for (int64_t i = 0; i < count; ++i) {
                        expected.set(i, x[i]);
                        REQUIRE(out[i] == expected[i]);
                    }
                }
            }
        }
    });
}

TEST_CASE("embedding widens and scales rows of the table") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t hidden : {1, 9, 16, 100}) {
                Buffer table(dtype, testing::Random(6).values(7 * hidden));
                std::vector<int32_t> ids = {6, 0, 3, 3};
                std::vector<float> out(static_cast<size_t>(4 * hidden));
                ops::embedding(machine.context(), table.view({7, hidden}), testing::view(ids, {4}),
                               1.5f, testing::view(out, {4, hidden}));
                for (int64_t t = 0; t < 4; ++t) {
                    for (int64_t i = 0; i < hidden; ++i) {
                        const float expected =
                            table[ids[static_cast<size_t>(t)] * hidden + i] * 1.5f;
                        REQUIRE(out[static_cast<size_t>(t * hidden + i)] == expected);
                    }
                }
            }
        }
    });
}

TEST_CASE("embedding of a part of a table gives zeros for rows of the others") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        constexpr int64_t kHidden = 9;
        Buffer table(DType::bf16, testing::Random(7).values(4 * kHidden));
        std::vector<int32_t> ids = {7, 8, 11, 12, 0};
        std::vector<float> out(5 * kHidden, 3.0f);
        ops::embedding(machine.context(), table.view({4, kHidden}), testing::view(ids, {5}), 0.5f,
                       testing::view(out, {5, kHidden}), {8, true});
        for (int64_t t = 0; t < 5; ++t) {
            const int64_t row = ids[static_cast<size_t>(t)] - 8;
            for (int64_t i = 0; i < kHidden; ++i) {
                const float expected = row >= 0 && row < 4 ? table[row * kHidden + i] * 0.5f : 0.0f;
                REQUIRE(out[static_cast<size_t>(t * kHidden + i)] == expected);
            }
        }
    });
}

TEST_CASE("row_maxima finds the largest magnitude of each row, and what is no number") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        for (const int64_t width : {1, 7, 16, 100}) {
            const int64_t stride = width + 3;
            std::vector<float> x = testing::Random(8).values(4 * stride, 5.0f);
            x[static_cast<size_t>(3 * stride + width / 2)] = NAN;
            std::vector<float> out(4);
            TensorView rows = testing::view(x, {4, stride});
            ops::row_maxima(machine.context(), rows.columns(0, width), testing::view(out, {4}));
            for (int64_t t = 0; t < 3; ++t) {
                float largest = 0.0f;
                for (int64_t i = 0; i < width; ++i) {
                    largest = std::max(largest, std::abs(x[static_cast<size_t>(t * stride + i)]));
                }
                REQUIRE(out[static_cast<size_t>(t)] == largest);
            }
            REQUIRE(std::isnan(out[3]));
        }
    });
}
