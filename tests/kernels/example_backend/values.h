// Elements of views in any float type, read and written as float32.
#pragma once

#include <bit>
#include <cstring>

#include "memory.h"

namespace example {

using nvllm::ConstTensorView;
using nvllm::DType;
using nvllm::TensorView;
using nvllm::ViewLayout;

inline int64_t offset(const ViewLayout& view, std::initializer_list<int64_t> at) {
    int64_t sum = 0;
    int axis = 0;
    for (const int64_t index : at) sum += index * view.stride(axis++);
    return sum;
}

inline float load(const void* data, DType dtype, int64_t index) {
    const void* memory = host(data);
    if (dtype == DType::f32) return static_cast<const float*>(memory)[index];
    const uint16_t bits = static_cast<const uint16_t*>(memory)[index];
    return dtype == DType::bf16 ? static_cast<float>(std::bit_cast<nvllm::BFloat16>(bits))
                                : static_cast<float>(std::bit_cast<nvllm::Float16>(bits));
}

inline void store(void* data, DType dtype, int64_t index, float value) {
    void* memory = host(data);
    if (dtype == DType::f32) {
        static_cast<float*>(memory)[index] = value;
    } else {
        static_cast<uint16_t*>(memory)[index] =
            dtype == DType::bf16 ? nvllm::BFloat16(value).bits : nvllm::Float16(value).bits;
    }
}

inline float get(const ConstTensorView& view, std::initializer_list<int64_t> at) {
    return load(view.data, view.dtype, offset(view, at));
}

inline void set(const TensorView& view, std::initializer_list<int64_t> at, float value) {
    store(view.data, view.dtype, offset(view, at), value);
}

inline int32_t index_at(const ConstTensorView& view, int64_t place) {
    return host(view.as<int32_t>())[place];
}

// What rounding to a type leaves of a value.
inline float rounded(float value, DType dtype) {
    if (dtype == DType::bf16) return static_cast<float>(nvllm::BFloat16(value));
    if (dtype == DType::f16) return static_cast<float>(nvllm::Float16(value));
    return value;
}

// visit(offset of a, offset of b) for every element of two views of one shape.
template <typename Visit>
void for_each_element(const ViewLayout& a, const ViewLayout& b, Visit&& visit) {
    std::array<int64_t, nvllm::kMaxRank> at{};
    for (int64_t i = 0; i < a.numel(); ++i) {
        int64_t of_a = 0;
        int64_t of_b = 0;
        int64_t rest = i;
        for (int axis = a.rank - 1; axis >= 0; --axis) {
            at[static_cast<size_t>(axis)] = rest % a.dim(axis);
            rest /= a.dim(axis);
            of_a += at[static_cast<size_t>(axis)] * a.stride(axis);
            of_b += at[static_cast<size_t>(axis)] * b.stride(axis);
        }
        visit(of_a, of_b);
    }
}

}  // namespace example
