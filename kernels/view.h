// Non-owning views of tensors: a pointer, an element type, a shape, strides and a device.
//
// A view never owns its memory; the caller made it keeps the memory alive. Strides count elements.
// Rank is at most 4. TensorView may be written through, ConstTensorView may not; the first converts
// to the second.
#pragma once

#include <array>
#include <initializer_list>

#include "kernels/error.h"
#include "kernels/types.h"

namespace nvllm {

constexpr int kMaxRank = 4;

// Shape, strides, element type and device: what both kinds of view have in common.
struct ViewLayout {
    DType dtype = DType::f32;
    Device device;
    int rank = 0;
    std::array<int64_t, kMaxRank> shape{};
    std::array<int64_t, kMaxRank> strides{};

    // A dense row-major layout.
    static ViewLayout dense(DType dtype, std::initializer_list<int64_t> shape, Device device = {});

    int64_t dim(int axis) const { return shape[static_cast<size_t>(axis)]; }
    int64_t stride(int axis) const { return strides[static_cast<size_t>(axis)]; }
    // Number of elements; 1 for a scalar.
    int64_t numel() const;
    // Row-major without gaps.
    bool contiguous() const;
    // "bfloat16[3, 256]", for messages.
    std::string describe() const;
};

struct ConstTensorView;

struct TensorView : ViewLayout {
    void* data = nullptr;

    TensorView() = default;
    TensorView(void* memory, const ViewLayout& layout) : ViewLayout(layout), data(memory) {}
    TensorView(void* memory, DType type, std::initializer_list<int64_t> dims, Device where = {})
        : ViewLayout(ViewLayout::dense(type, dims, where)), data(memory) {}

    template <typename T>
    T* as() const {
        return static_cast<T*>(data);
    }
    // Rows [begin, begin + count) of the first axis.
    TensorView rows(int64_t begin, int64_t count) const;
    // Columns [begin, begin + count) of the last axis.
    TensorView columns(int64_t begin, int64_t count) const;
    // The same elements under another dense shape; requires contiguous() and an equal count.
    TensorView reshaped(std::initializer_list<int64_t> dims) const;
    // Splits the last axis into [parts, size / parts]; works on strided rows too.
    TensorView split_last(int64_t parts) const;
};

struct ConstTensorView : ViewLayout {
    const void* data = nullptr;

    ConstTensorView() = default;
    ConstTensorView(const TensorView& view)
        : ViewLayout(view), data(view.data) {}  // NOLINT: meant to be implicit
    ConstTensorView(const void* memory, const ViewLayout& layout)
        : ViewLayout(layout), data(memory) {}
    ConstTensorView(const void* memory, DType type, std::initializer_list<int64_t> dims,
                    Device where = {})
        : ViewLayout(ViewLayout::dense(type, dims, where)), data(memory) {}

    template <typename T>
    const T* as() const {
        return static_cast<const T*>(data);
    }
    ConstTensorView rows(int64_t begin, int64_t count) const;
    ConstTensorView columns(int64_t begin, int64_t count) const;
    ConstTensorView reshaped(std::initializer_list<int64_t> dims) const;
    ConstTensorView split_last(int64_t parts) const;
};

}  // namespace nvllm
