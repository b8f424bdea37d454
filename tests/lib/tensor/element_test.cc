// Values of several types, at odd addresses.
#include "lib/tensor/element.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "kernels/types.h"

using namespace nvllm;

namespace {

constexpr int64_t kRows = 70;
constexpr int64_t kColumns = 3;

// Whole numbers, which every type holds; one byte behind an even address.
struct Matrix {
    explicit Matrix(DType type) : dtype(type), bytes(1 + kRows * kColumns * dtype_bytes(type)) {
        for (int64_t i = 0; i < kRows * kColumns; ++i) {
            set_float_at(values(), dtype, i, static_cast<float>(i % 101 - 50));
        }
    }
    std::byte* values() { return bytes.data() + 1; }
    ConstTensorView view() { return {values(), dtype, {kRows, kColumns}}; }

    DType dtype;
    std::vector<std::byte> bytes;
};

}  // namespace

TEST_CASE("values are copied, and transposed, from each type to each") {
    for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
        for (const DType to : {DType::f32, DType::bf16, DType::f16}) {
            Matrix matrix(from);
            std::vector<std::byte> copied(kRows * kColumns * dtype_bytes(to));
            std::vector<std::byte> transposed(copied.size());
            copy_floats(matrix.view(), copied.data(), to);
            copy_floats_transposed(matrix.view(), transposed.data(), to);
            for (int64_t row = 0; row < kRows; ++row) {
                for (int64_t column = 0; column < kColumns; ++column) {
                    const int64_t place = row * kColumns + column;
                    const auto expected = static_cast<float>(place % 101 - 50);
                    CHECK(float_at(copied.data(), to, place) == expected);
                    CHECK(float_at(transposed.data(), to, column * kRows + row) == expected);
                }
            }
        }
    }
}

TEST_CASE("a value that a type does not hold becomes the nearest") {
    std::vector<std::byte> bytes(2);
    set_float_at(bytes.data(), DType::bf16, 0, 1.0f + 3.0f / 512.0f);
    CHECK(float_at(bytes.data(), DType::bf16, 0) == 1.0f + 1.0f / 128.0f);
}
