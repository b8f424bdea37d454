// Pooling of rows: which are read, in what order they are added, length and dimensions, and what is
// no number.
#include "lib/decode/pooling_state.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr int64_t kHidden = 3;

// Rows 1, 2, 3 | 10, 20, 30 | 100, 200, 300 ...
std::vector<float> rows_of(int32_t count) {
    std::vector<float> rows;
    float factor = 1.0f;
    for (int32_t row = 0; row < count; ++row, factor *= 10.0f) {
        for (int column = 1; column <= kHidden; ++column) {
            rows.push_back(factor * static_cast<float>(column));
        }
    }
    return rows;
}

// The vector of `rows`, handed over in steps of `chunk`.
Result<std::vector<float>> pooled(const PoolingParams& params, const std::vector<float>& rows,
                                  int32_t chunk) {
    PoolingState state(params);
    const auto total = static_cast<int32_t>(rows.size() / kHidden);
    for (int32_t first = 0; first < total; first += chunk) {
        const int32_t count = std::min(chunk, total - first);
        const PoolingState::Run run = state.wanted(first, count, first + count == total);
        if (run.count == 0) continue;
        state.add(ConstTensorView(rows.data() + (first + run.first) * kHidden, DType::f32,
                                  {run.count, kHidden}));
    }
    return state.finish();
}

TEST_CASE("pooling: the rows of each kind, however the prompt is cut") {
    for (const int32_t chunk : {1, 2, 3, 5}) {
        CAPTURE(chunk);
        const auto vector = [&](PoolingKind kind) {
            return *pooled({.kind = kind, .normalize = false}, rows_of(4), chunk);
        };
        CHECK(vector(PoolingKind::last) == std::vector<float>{1000, 2000, 3000});
        CHECK(vector(PoolingKind::cls) == std::vector<float>{1, 2, 3});
        CHECK(vector(PoolingKind::mean) ==
              std::vector<float>{1111 / 4.0f, 2222 / 4.0f, 3333 / 4.0f});
    }
}

TEST_CASE("pooling: a mean has one order of sums") {
    std::vector<float> rows;
    for (int i = 0; i < 90 * kHidden; ++i) rows.push_back(1.0f / static_cast<float>(i + 1));
    const auto whole = *pooled({.kind = PoolingKind::mean}, rows, 90);
    for (const int32_t chunk : {1, 7, 64}) {
        CHECK(*pooled({.kind = PoolingKind::mean}, rows, chunk) == whole);
    }
}

TEST_CASE("pooling: length 1, of the values that are kept") {
    const std::vector<float> rows = {3, 4, 12};
    CHECK(*pooled({.normalize = true}, rows, 1) ==
          std::vector<float>{3 / 13.0f, 4 / 13.0f, 12 / 13.0f});
    CHECK(*pooled({.normalize = true, .dimensions = 2}, rows, 1) ==
          std::vector<float>{3 / 5.0f, 4 / 5.0f});
    CHECK(*pooled({.normalize = false, .dimensions = 1}, rows, 1) == std::vector<float>{3});
    CHECK(*pooled({.normalize = true}, {0, 0, 0}, 1) == std::vector<float>{0, 0, 0});
    // Squares that no float holds.
    const auto large = *pooled({.normalize = true}, {1e30f, 0, 0}, 1);
    CHECK(large == std::vector<float>{1, 0, 0});
}

TEST_CASE("pooling: a value that is no number is a fault, unless it is cut off") {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        CHECK_FALSE(pooled({.normalize = false}, {1, 2, bad}, 1).ok());
        CHECK(pooled({.normalize = false, .dimensions = 2}, {1, 2, bad}, 1).ok());
    }
}

TEST_CASE("pooling: a mean that missed positions is our own mistake") {
    PoolingState state({.kind = PoolingKind::mean});
    CHECK_THROWS_AS(state.wanted(4, 2, false), Error);
    CHECK_THROWS_AS(state.finish(), Error);
}

}  // namespace
}  // namespace nvllm
