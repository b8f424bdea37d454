// Of three types.
#include "lib/tensor/element.h"

#include <algorithm>
#include <cstring>

#include "kernels/error.h"
#include "kernels/types.h"

namespace nvllm {
namespace {

template <typename T>
float load(const std::byte* values, int64_t i) {
    T value;
    std::memcpy(&value, values + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return static_cast<float>(value);
}

template <typename T>
void store(std::byte* values, int64_t i, float value) {
    const T rounded(value);
    std::memcpy(values + i * static_cast<int64_t>(sizeof(T)), &rounded, sizeof(T));
}

// body(T()) for the type of the values.
template <typename Body>
auto with_float_type(DType dtype, Body body) {
    switch (dtype) {
        case DType::f32:
            return body(float());
        case DType::bf16:
            return body(BFloat16());
        case DType::f16:
            return body(Float16());
        default:
            NVLLM_CHECK(false, "values are floats");
    }
}

template <typename Body>
void with_float_types(DType from, DType to, Body body) {
    with_float_type(from, [&](auto source) {
        with_float_type(to, [&](auto target) { body(source, target); });
    });
}

// Rows of a matrix that is transposed: so many of its lines and one of the result are in the
// nearest cache.
constexpr int64_t kRowsAtOnce = 32;

}  // namespace

float float_at(const std::byte* values, DType dtype, int64_t i) {
    return with_float_type(dtype, [&](auto type) { return load<decltype(type)>(values, i); });
}

void set_float_at(std::byte* values, DType dtype, int64_t i, float value) {
    with_float_type(dtype, [&](auto type) { store<decltype(type)>(values, i, value); });
}

void copy_floats(const ConstTensorView& from, std::byte* to, DType dtype) {
    const auto* const values = from.as<std::byte>();
    if (from.dtype == dtype) {
        std::memcpy(to, values, static_cast<size_t>(from.numel()) * dtype_bytes(dtype));
        return;
    }
    with_float_types(from.dtype, dtype, [&](auto source, auto target) {
        for (int64_t i = 0; i < from.numel(); ++i) {
            store<decltype(target)>(to, i, load<decltype(source)>(values, i));
        }
    });
}

void copy_floats_transposed(const ConstTensorView& from, std::byte* to, DType dtype) {
    const auto* const values = from.as<std::byte>();
    const int64_t rows = from.dim(0);
    const int64_t columns = from.dim(1);
    with_float_types(from.dtype, dtype, [&](auto source, auto target) {
        for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
            const int64_t end = std::min(rows, first + kRowsAtOnce);
            for (int64_t column = 0; column < columns; ++column) {
                for (int64_t row = first; row < end; ++row) {
                    store<decltype(target)>(to, column * rows + row,
                                            load<decltype(source)>(values, row * columns + column));
                }
            }
        }
    });
}

}  // namespace nvllm
