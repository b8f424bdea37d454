// Views as lists of rows, and the spreading of rows over threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/context.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/error.h"
#include "kernels/host/thread_pool.h"
#include "kernels/view.h"

namespace nvllm::cpu {

inline int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// The rows of a view along its last axis; the axes before it may have any strides.
class RowIndex {
  public:
    explicit RowIndex(const ViewLayout& view) : view_(view) {}

    int64_t width() const { return view_.dim(view_.rank - 1); }
    int64_t count() const {
        int64_t rows = 1;
        for (int axis = 0; axis + 1 < view_.rank; ++axis) rows *= view_.dim(axis);
        return rows;
    }
    // Elements from the start of the view to row `row`.
    int64_t offset(int64_t row) const {
        int64_t elements = 0;
        for (int axis = view_.rank - 2; axis >= 0; --axis) {
            elements += row % view_.dim(axis) * view_.stride(axis);
            row /= view_.dim(axis);
        }
        return elements;
    }

  private:
    ViewLayout view_;
};

inline size_t float_type_index(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return static_cast<size_t>(FloatType::f32);
        case DType::bf16:
            return static_cast<size_t>(FloatType::bf16);
        case DType::f16:
            return static_cast<size_t>(FloatType::f16);
        default:
            break;
    }
    check_failed(__FILE__, __LINE__, "float type", dtype_name(dtype));
}

inline size_t kv_type_index(DType dtype) {
    if (dtype == DType::f8_e4m3) return static_cast<size_t>(KvType::f8_e4m3);
    if (dtype == DType::i8) return static_cast<size_t>(KvType::i8);
    return float_type_index(dtype);
}

// Element `index` of memory that holds `dtype`.
inline const void* element(const void* data, DType dtype, int64_t index) {
    return static_cast<const std::byte*>(data) + index * static_cast<int64_t>(dtype_bytes(dtype));
}
inline void* element(void* data, DType dtype, int64_t index) {
    return static_cast<std::byte*>(data) + index * static_cast<int64_t>(dtype_bytes(dtype));
}

// Values that are worth waking another thread for.
constexpr int64_t kValuesPerRange = 16384;

// body(row) for every row, in ranges of about kValuesPerRange values.
template <typename Body>
void parallel_rows(const Context& context, int64_t count, int64_t width, Body body) {
    const int64_t grain = std::max<int64_t>(1, kValuesPerRange / std::max<int64_t>(1, width));
    context.threads->parallel_for(count, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) body(row);
    });
}

}  // namespace nvllm::cpu
