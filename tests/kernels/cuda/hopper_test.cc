// Transaction barriers, tile copies and products of a warpgroup: exact on small whole numbers, and
// their mistakes found.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda_emulation/site.h"
#include "kernels/types.h"
#include "tests/kernels/cuda/hopper_kernels.h"
#include "tests/kernels/cuda/schedules.h"

using nvllm::gpu::emulation::Fault;

namespace {

struct alignas(16) Eight {
    uint16_t at[8];
};

// A dense matrix of 16-bit elements, aligned as device memory is.
struct Matrix {
    Matrix(int rows_, int columns_) : rows(rows_), columns(columns_) {
        pieces.resize(static_cast<size_t>(rows * columns + 7) / 8);
    }
    uint16_t* data() { return pieces.front().at; }
    uint16_t& at(int row, int column) { return data()[row * columns + column]; }
    int rows;
    int columns;
    std::vector<Eight> pieces;
};

int number(int row, int column) { return (row * 7 + column * 3) % 11 - 5; }

template <typename T>
Matrix numbers(int rows, int columns) {
    Matrix matrix(rows, columns);
    for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) {
            matrix.at(row, column) = T(static_cast<float>(number(row, column))).bits;
        }
    }
    return matrix;
}

struct Shape {
    int m, n, k;
};

// Sums that differ from those of whole numbers.
int wrong_sums(const Shape& shape, const std::vector<float>& c) {
    int wrong = 0;
    for (int row = 0; row < shape.m; ++row) {
        for (int column = 0; column < shape.n; ++column) {
            int sum = 0;
            for (int k = 0; k < shape.k; ++k) sum += number(row, k) * number(column, k);
            wrong += c[static_cast<size_t>(row * shape.n + column)] != static_cast<float>(sum);
        }
    }
    return wrong;
}

constexpr Shape kShape{100, 72, 328};  // nothing whole; six stages

// What the emulation says of the mistake; "wrong" when it says nothing and the results are wrong.
std::string outcome(hopper::Mistake mistake) {
    Matrix a = numbers<nvllm::BFloat16>(kShape.m, kShape.k);
    Matrix b = numbers<nvllm::BFloat16>(kShape.n, kShape.k);
    std::vector<float> c(static_cast<size_t>(kShape.m * kShape.n));
    try {
        hopper::multiply(mistake, a.data(), b.data(), c.data(), kShape.m, kShape.n, kShape.k);
    } catch (const Fault& fault) {
        return fault.what();
    }
    return wrong_sums(kShape, c) > 0 ? "wrong" : "";
}

}  // namespace

TEST_CASE("a pipelined product of a warpgroup is exact") {
    under_all_schedules([] { CHECK(outcome(hopper::Mistake::none) == ""); });
}

TEST_CASE("a wide product of halves is exact") {
    under_all_schedules([] {
        const Shape shape{64, 130, 64};
        Matrix a = numbers<nvllm::Float16>(shape.m, shape.k);
        Matrix b = numbers<nvllm::Float16>(shape.n, shape.k);
        std::vector<float> c(static_cast<size_t>(shape.m * shape.n));
        hopper::multiply_halves(a.data(), b.data(), c.data(), shape.m, shape.n, shape.k);
        CHECK(wrong_sums(shape, c) == 0);
    });
}

TEST_CASE("tiles come in the byte order of their swizzle, with zeros beyond the edges") {
    Matrix in(20, 72);
    for (int i = 0; i < 20 * 72; ++i) in.data()[i] = static_cast<uint16_t>(i + 1);
    const int rows = 16;
    for (const int bytes : {16, 32, 64, 128}) {
        CAPTURE(bytes);
        const int columns = bytes / 2;
        std::vector<uint16_t> out(static_cast<size_t>(rows * columns));
        hopper::copy_tile(bytes, in.data(), 20, 72, 8, 32, out.data(), rows, columns);
        for (int row = 0; row < rows; ++row) {
            for (int column = 0; column < columns; ++column) {
                // The 16-byte chunk changes places with the row's turn: every row of 128 bytes
                // takes the next of eight turns, every second row of 64 bytes the next of four,
                // every fourth row of 32 bytes the next of two.
                const int turn = bytes == 128  ? row % 8
                                 : bytes == 64 ? row / 2 % 4
                                 : bytes == 32 ? row / 4 % 2
                                               : 0;
                const int place = row * columns + ((column / 8) ^ turn) * 8 + column % 8;
                const bool exists = 8 + row < 20 && 32 + column < 72;
                CHECK(out[static_cast<size_t>(place)] ==
                      (exists ? in.at(8 + row, 32 + column) : 0));
            }
        }
    }
}

// On a GPU such mistakes wait for ever.
#ifndef NVLLM_ON_DEVICE
namespace {

void check_always(hopper::Mistake mistake, const char* words) {
    under_all_schedules([&] {
        const std::string said = outcome(mistake);
        CAPTURE(said);
        CHECK(said.find(words) != std::string::npos);
    });
}

// Some schedule notices, and with access hooks every one does.
void check_noticed(hopper::Mistake mistake) {
    int noticed = 0;
    int schedules = 0;
    under_all_schedules([&] {
        noticed += !outcome(mistake).empty();
        ++schedules;
    });
    CHECK(noticed > 0);
    if (nvllm::gpu::emulation::has_access_hooks()) CHECK(noticed == schedules);
}

}  // namespace

TEST_CASE("mistakes with barriers and products are reported") {
    check_always(hopper::Mistake::barrier_not_initialised, "nobody has initialised");
    check_always(hopper::Mistake::accumulators_touched, "while products were in flight");
    check_always(hopper::Mistake::fewer_bytes_expected, "cannot go on");
}

TEST_CASE("missing waits of a pipeline are noticed") {
    check_noticed(hopper::Mistake::no_wait_for_tiles);
    check_noticed(hopper::Mistake::no_wait_for_products);
    check_noticed(hopper::Mistake::stage_not_given_back);
    check_noticed(hopper::Mistake::wrong_parity);
}

#endif
