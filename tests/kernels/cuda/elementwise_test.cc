// Emulated tests of the small element-wise CUDA ops and of the table look-up.
#include "kernels/cuda/ops.h"

#include "emulated.h"

using namespace nvllm;
using testing::Buffer;

TEST_CASE("cuda: sums, soft caps and gathered rows") {
    testing::Machine machine(1);
    under_all_schedules([&] {
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t width : {1, 24, 131}) {
                testing::Random random(static_cast<uint64_t>(width));
                const int64_t stride = width + 5;
                Buffer x(dtype, random.values(3 * stride, 3.0f)),
                    y(dtype, random.values(3 * width));
                const Buffer before = y;
                const auto at = [&](int64_t i) { return x[i / width * stride + i % width]; };
                cuda::add(machine.context(), x.matrix(3, width, stride), y.view({3, width}));
                CHECK(testing::matches(y, dtype, 0,
                                       [&](int64_t i) { return double{before[i]} + at(i); }));
                std::vector<int32_t> rows{2, 0, 2, 1};
                Buffer gathered(dtype, 4 * width);
                cuda::gather_rows(machine.context(), x.matrix(3, width, stride),
                                  testing::view(rows, {4}), gathered.view({4, width}));
                for (int64_t i = 0; i < 4 * width; ++i) {
                    CHECK(gathered[i] ==
                          x[rows[static_cast<size_t>(i / width)] * stride + i % width]);
                }
                const Buffer unscaled = y;
                std::vector<float> factors{0.5f, -3.0f, 1.25f};
                cuda::scale(machine.context(), 0.22f, y.view({3, width}));
                CHECK(testing::matches(
                    y, dtype, 0, [&](int64_t i) { return double{unscaled[i]} * double{0.22f}; }));
                const Buffer rows_before = y;
                cuda::scale_rows(machine.context(), testing::view(factors, {3}),
                                 y.view({3, width}));
                CHECK(testing::matches(y, dtype, 0, [&](int64_t i) {
                    return double{rows_before[i]} * factors[static_cast<size_t>(i / width)];
                }));
                const Buffer uncapped = gathered;
                cuda::soft_cap(machine.context(), 1.5f, gathered.view({4, width}));
                CHECK(testing::matches(gathered, dtype, 1e-6, [&](int64_t i) {
                    return 1.5 * std::tanh(uncapped[i] / 1.5);
                }));
            }
        }
    });
}

TEST_CASE("cuda: conversions round as the scalar ones do") {
    testing::Machine machine(1);
    for (const DType from : testing::kFloatTypes) {
        for (const DType to : testing::kFloatTypes) {
            for (const int64_t count : {3, 2048, 2100}) {
                Buffer x(from, testing::Random(4).values(count, 100.0f));
                Buffer out(to, count), expected(to, count);
                for (int64_t i = 0; i < count; ++i) expected.set(i, x[i]);
                cuda::convert(machine.context(), x.view({count}), out.view({count}));
                for (int64_t i = 0; i < count; ++i) CHECK(out[i] == expected[i]);
            }
        }
    }
}

TEST_CASE("cuda: random values are those of the CPU") {
    testing::Machine machine(1);
    for (const DType dtype : testing::kFloatTypes) {
        Buffer table(dtype, testing::Random(6).values(4096));
        for (const int64_t count : {1, 3, 1024, 5001}) {
            Buffer out(dtype, count), expected(dtype, count);
            cuda::fill_random(machine.context(), 1234, table.view({4096}), out.view({count}));
            ops::fill_random(machine.context(), 1234, table.view({4096}), expected.view({count}));
            for (int64_t i = 0; i < count; ++i) CHECK(out[i] == expected[i]);
        }
    }
}

TEST_CASE("cuda: rows of a table, and NaN where there is none") {
    testing::Machine machine(1);
    for (const DType stored : testing::kFloatTypes) {
        for (const DType dtype : testing::kFloatTypes) {
            for (const int64_t hidden : {8, 19}) {
                Buffer table(stored, testing::Random(8).values(5 * hidden));
                std::vector<int32_t> ids{4, 0, 5, -1};
                Buffer out(dtype, 4 * hidden);
                cuda::embedding(machine.context(), table.view({5, hidden}), testing::view(ids, {4}),
                                2.0f, out.view({4, hidden}));
                CHECK(testing::matches(out, dtype, 0, [&](int64_t i) -> double {
                    const int64_t id = ids[static_cast<size_t>(i / hidden)];
                    return id >= 0 && id < 5 ? 2.0 * table[id * hidden + i % hidden] : NAN;
                }));
            }
        }
    }
}

TEST_CASE("cuda: rows of a part of a table, and zeros for rows of the others") {
    testing::Machine machine(1);
    for (const int64_t hidden : {8, 19}) {
        Buffer table(DType::bf16, testing::Random(8).values(5 * hidden));
        std::vector<int32_t> ids{9, 10, 14, 15};
        Buffer out(DType::bf16, 4 * hidden);
        cuda::embedding(machine.context(), table.view({5, hidden}), testing::view(ids, {4}), 2.0f,
                        out.view({4, hidden}), {10, true});
        CHECK(testing::matches(out, DType::bf16, 0, [&](int64_t i) -> double {
            const int64_t row = ids[static_cast<size_t>(i / hidden)] - 10;
            return row >= 0 && row < 5 ? 2.0 * table[row * hidden + i % hidden] : 0.0;
        }));
    }
}

TEST_CASE("cuda: the largest magnitude of each row, and what is no number") {
    testing::Machine machine(1);
    for (const DType dtype : testing::kFloatTypes) {
        for (const int64_t width : {1, 19, 2049, 5000}) {
            Buffer x(dtype, testing::Random(9).values(3 * width, 5.0f));
            x.set(2 * width + width / 2, NAN);
            std::vector<float> out(3);
            cuda::row_maxima(machine.context(), x.view({3, width}), testing::view(out, {3}));
            for (int64_t row = 0; row < 2; ++row) {
                float largest = 0.0f;
                for (int64_t i = 0; i < width; ++i) {
                    largest = std::max(largest, std::abs(static_cast<float>(x[row * width + i])));
                }
                CHECK(out[static_cast<size_t>(row)] == largest);
            }
            CHECK(std::isnan(out[2]));
        }
    }
}
