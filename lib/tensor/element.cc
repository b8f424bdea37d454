// Of three types.
#include "lib/tensor/element.h"

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

}  // namespace

float float_at(const std::byte* values, DType dtype, int64_t i) {
    switch (dtype) {
        case DType::f32:
            return load<float>(values, i);
        case DType::bf16:
            return load<BFloat16>(values, i);
        case DType::f16:
            return load<Float16>(values, i);
        default:
            NVLLM_CHECK(false, "values are floats");
    }
}

void set_float_at(std::byte* values, DType dtype, int64_t i, float value) {
    switch (dtype) {
        case DType::f32:
            return store<float>(values, i, value);
        case DType::bf16:
            return store<BFloat16>(values, i, value);
        case DType::f16:
            return store<Float16>(values, i, value);
        default:
            NVLLM_CHECK(false, "values are floats");
    }
}

}  // namespace nvllm
