// The sample kernels give right results under every order of threads.
#include "tests/kernels/cuda/sample_kernels.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "tests/kernels/cuda/schedules.h"

namespace {

std::vector<float> counted(int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);
    return values;
}

}  // namespace

TEST_CASE("sums of rows are right in every order of threads") {
    under_all_schedules([] {
        for (const int64_t columns : {1, 31, 128, 300}) {
            const int64_t rows = 3;
            const std::vector<float> in = counted(rows * columns);
            std::vector<float> out(rows);
            sample::row_sums(in.data(), out.data(), rows, columns);
            for (int64_t row = 0; row < rows; ++row) {
                float expected = 0;
                for (int64_t i = 0; i < columns; ++i)
                    expected += in[static_cast<size_t>(row * columns + i)];
                CHECK(out[static_cast<size_t>(row)] == expected);
            }
        }
    });
}

TEST_CASE("a transposition is right in every order of threads") {
    under_all_schedules([] {
        const int64_t rows = 37;
        const int64_t columns = 70;
        const std::vector<float> in = counted(rows * columns);
        std::vector<float> out(in.size());
        sample::transpose(in.data(), out.data(), rows, columns);
        int wrong = 0;
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < columns; ++column) {
                wrong += out[static_cast<size_t>(column * rows + row)] !=
                         in[static_cast<size_t>(row * columns + column)];
            }
        }
        CHECK(wrong == 0);
    });
}
