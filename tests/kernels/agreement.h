// What the tests share that hold every instruction set to double precision, on operands that are
// awkward on purpose.
//
// Bounds follow from the order of the sums: a sum of n terms, each rounded in at most m places on
// its way into it, is off by at most m units of roundoff of the sum of the terms' magnitudes
// (Higham 2002, 3.1 and 4.2). Second-order terms are below a hundredth of that and covered by
// kSlack.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/dispatch/isa.h"
#include "testing.h"

namespace testing {

// A rounding to float32 changes a value by at most this part of it.
constexpr double kUnit = 0x1p-24;
constexpr double kSlack = 1.01;
constexpr double kMinLanes = 4;  // the scalar kernels': the longest accumulators of additions
// Of exp(), in units of roundoff (2e-7, kernels/cpu/simd/vector_math.h), and of tanh().
constexpr double kExpUnits = 4;
constexpr double kTanhUnits = 16;

// Most roundings of a term of a sum over `count` in lanes: its product, its accumulator, the tree
// over the lanes (at most sixteen).
inline double roundings_in_lanes(int64_t count) {
    return 1 + std::ceil(static_cast<double>(count) / kMinLanes) + 4;
}

// 1 to 300: as often anything, something short, and a neighbour of a whole number of vectors.
inline int64_t random_size(Random& random) {
    switch (random.below(3)) {
        case 0:
            return 1 + random.below(20);
        case 1:
            return std::max<int64_t>(1, 16 * random.below(19) + random.below(3) - 1);
        default:
            return 1 + random.below(300);
    }
}

// float32 rows with gaps between them, which begin anywhere between the borders of vectors. Gaps
// are NaN, so that they show in results; memory ends with the last row.
class LooseRows {
  public:
    LooseRows(Random& random, int64_t rows, int64_t columns, float scale = 1.0f)
        : rows_(rows),
          columns_(columns),
          offset_(random.below(16)),
          stride_(columns + random.below(7)),
          memory_(static_cast<size_t>(offset_ + (rows - 1) * stride_ + columns), std::nanf("")) {
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < columns; ++column) {
                memory_[index(row, column)] = random.uniform() * scale;
            }
        }
    }

    int64_t rows() const { return rows_; }
    int64_t columns() const { return columns_; }
    float at(int64_t row, int64_t column) const { return memory_[index(row, column)]; }
    nvllm::TensorView view() {
        nvllm::TensorView result(memory_.data() + offset_, nvllm::DType::f32, {rows_, columns_});
        result.strides[0] = stride_;
        return result;
    }
    std::vector<double> row(int64_t index_of_row) const {
        std::vector<double> values;
        for (int64_t i = 0; i < columns_; ++i) values.push_back(at(index_of_row, i));
        return values;
    }
    bool gaps_are_untouched() const {
        const auto numbers = static_cast<size_t>(
            std::ranges::count_if(memory_, [](float value) { return !std::isnan(value); }));
        return numbers <= static_cast<size_t>(rows_ * columns_);
    }

  private:
    size_t index(int64_t row, int64_t column) const {
        return static_cast<size_t>(offset_ + row * stride_ + column);
    }

    int64_t rows_, columns_, offset_, stride_;
    std::vector<float> memory_;
};

// Values side by side that begin anywhere between the borders of vectors.
class LooseVector {
  public:
    LooseVector(nvllm::DType dtype, Random& random, int64_t count, float scale = 1.0f)
        : count_(count),
          offset_(random.below(32)),
          memory_(dtype, random.values(offset_ + count, scale)) {}

    float at(int64_t index) const { return memory_[offset_ + index]; }
    nvllm::TensorView view() { return memory_.view({offset_ + count_}).rows(offset_, count_); }
    nvllm::TensorView matrix(int64_t rows, int64_t columns) {
        return view().reshaped({rows, columns});
    }
    std::vector<double> values() const {
        std::vector<double> all;
        for (int64_t i = 0; i < count_; ++i) all.push_back(at(i));
        return all;
    }

  private:
    int64_t count_, offset_;
    Buffer memory_;
};

// What a result must be, and how far it may be off.
struct Bounded {
    double value = 0;
    double error = 0;
};

// Row after row.
using Expectation = std::vector<Bounded>;

inline Expectation expect_each(int64_t rows, int64_t columns,
                               const std::function<Bounded(int64_t, int64_t)>& of) {
    Expectation expected;
    expected.reserve(static_cast<size_t>(rows * columns));
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) expected.push_back(of(row, column));
    }
    return expected;
}

inline bool is_within(float actual, const Bounded& expected) {
    return std::abs(actual - expected.value) <= expected.error;  // false for NaN
}

// Runs `op` under every instruction set, on its own copy of `out`, and holds it to `expected`. Two
// of them are then at most twice the error apart.
inline void check_all_agree(const LooseRows& out, const Expectation& expected,
                            const std::function<void(LooseRows&)>& op) {
    for_each_isa([&](nvllm::cpu::Isa isa) {
        LooseRows result = out;
        op(result);
        bool good = true;
        for (int64_t row = 0; row < out.rows(); ++row) {
            for (int64_t column = 0; column < out.columns(); ++column) {
                const auto at = static_cast<size_t>(row * out.columns() + column);
                good = good && is_within(result.at(row, column), expected[at]);
            }
        }
        INFO(std::string(nvllm::cpu::isa_name(isa)));
        CHECK(good);
        CHECK(result.gaps_are_untouched());
    });
}

}  // namespace testing
