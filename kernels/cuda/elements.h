// How kernels reach the values of a view: choice of the element type, rows, and runs of eight
// values.
//
// For .cu files only. A run is what one thread takes at a time: 16 bytes of bfloat16 or float16, or
// twice 16 bytes of float32. Which thread takes which run never depends on alignment, so that a sum
// has the same bits whether its memory is read 16 bytes or one value at a time.
#pragma once

#include <cstring>

#include "kernels/context.h"
#include "kernels/cuda/gpu.h"
#include "kernels/error.h"
#include "kernels/view.h"

namespace nvllm::cuda {

constexpr int kRun = 8;

// The second of a kernel's launch bounds, blocks of a multiprocessor, where registers count more
// than blocks: without it the compiler spills some so that one more block fits.
constexpr int kAnyOccupancy = 1;

// The device type of a DType, as an argument.
template <typename T>
struct Element {
    using Type = T;
};

// body(Element<T>{}) for the float type of `dtype`.
template <typename Body>
void with_float_type(DType dtype, const Body& body) {
    switch (dtype) {
        case DType::f32:
            return body(Element<float>{});
        case DType::bf16:
            return body(Element<__nv_bfloat16>{});
        case DType::f16:
            return body(Element<__half>{});
        default:
            check_failed(__FILE__, __LINE__, "a float type", dtype_name(dtype));
    }
}

// Rows of a view along its last axis, whose values lie side by side; the axes before it may have
// any strides. Plain data, handed to kernels.
struct RowLayout {
    int64_t count = 1;
    int64_t width = 1;
    uint32_t sizes[2] = {1, 1};  // of the second and third axis from the end
    int64_t strides[3] = {0, 0, 0};
    // Whether each row begins at a multiple of 16 bytes and is a whole number of runs.
    bool aligned = false;

    // Values from the start of the view to row `row`.
    __device__ __forceinline__ int64_t offset(int64_t row) const {
        auto rest = static_cast<uint32_t>(row);
        if (sizes[0] == 1 && sizes[1] == 1) return rest * strides[2];
        const uint32_t last = rest % sizes[0];
        rest /= sizes[0];
        const uint32_t middle = rest % sizes[1];
        return last * strides[0] + middle * strides[1] + (rest / sizes[1]) * strides[2];
    }
};

inline RowLayout row_layout(const ViewLayout& view, const void* data) {
    NVLLM_CHECK(view.rank >= 1, "a scalar has no rows");
    RowLayout rows;
    rows.width = view.dim(view.rank - 1);
    const auto bytes = static_cast<int64_t>(dtype_bytes(view.dtype));
    rows.aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0 && rows.width % kRun == 0;
    for (int axis = view.rank - 2, i = 0; axis >= 0; --axis, ++i) {
        const int slot = axis == 0 ? 2 : i;  // the first axis is the one without a size
        if (axis > 0) rows.sizes[slot] = static_cast<uint32_t>(view.dim(axis));
        rows.strides[slot] = view.stride(axis);
        rows.count *= view.dim(axis);
        rows.aligned = rows.aligned && view.stride(axis) * bytes % 16 == 0;
    }
    NVLLM_CHECK(rows.count <= INT32_MAX, "too many rows: " + view.describe());
    return rows;
}
inline RowLayout row_layout(const TensorView& view) { return row_layout(view, view.data); }
inline RowLayout row_layout(const ConstTensorView& view) { return row_layout(view, view.data); }

// Whether `data` begins at a multiple of 16 bytes.
inline bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

inline uint32_t blocks_for(int64_t count, int64_t per_block) {
    return static_cast<uint32_t>((count + per_block - 1) / per_block);
}

template <typename T>
struct alignas(16) Packed {
    T values[16 / sizeof(T)];
};

// Sixteen bytes at `from` as values, dequantized.
template <typename T>
__device__ __forceinline__ void load_packed(const T* from, float* values) {
    const uint4 bits = gpu::load16(from);
    Packed<T> packed;
    memcpy(&packed, &bits, 16);
#pragma unroll
    for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i) {
        values[i] = gpu::to_float(packed.values[i]);
    }
}

template <typename T>
__device__ __forceinline__ void store_packed(T* to, const float* values) {
    Packed<T> packed;
#pragma unroll
    for (int i = 0; i < static_cast<int>(16 / sizeof(T)); ++i) {
        packed.values[i] = gpu::from_float<T>(values[i]);
    }
    uint4 bits;
    memcpy(&bits, &packed, 16);
    gpu::store16(to, bits);
}

// A run of values of one byte each, at a multiple of 8 bytes.
template <typename T>
__device__ __forceinline__ void load_bytes(const T* from, float (&values)[kRun]) {
    const uint2 bits = gpu::load8(from);
    T bytes[kRun];
    memcpy(bytes, &bits, sizeof(bytes));
#pragma unroll
    for (int i = 0; i < kRun; ++i) values[i] = gpu::to_float(bytes[i]);
}

template <typename T>
__device__ __forceinline__ void store_bytes(T* to, const float (&values)[kRun]) {
    T bytes[kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) bytes[i] = gpu::from_float<T>(values[i]);
    uint2 bits;
    memcpy(&bits, bytes, sizeof(bits));
    gpu::store8(to, bits);
}

// The run at `from`, of which `count` values exist; the others become 0.
template <typename T>
__device__ __forceinline__ void load_run(const T* from, int64_t count, bool aligned,
                                         float (&values)[kRun]) {
    if constexpr (sizeof(T) == 1) {
        if (aligned) return load_bytes(from, values);
    }
    if (aligned) {
        constexpr int kStep = 16 / sizeof(T);
#pragma unroll
        for (int i = 0; i < kRun; i += kStep) load_packed(from + i, values + i);
    } else {
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] = i < count ? gpu::to_float(from[i]) : 0.0f;
    }
}

template <typename T>
__device__ __forceinline__ void store_run(T* to, int64_t count, bool aligned,
                                          const float (&values)[kRun]) {
    if constexpr (sizeof(T) == 1) {
        if (aligned) return store_bytes(to, values);
    }
    if (aligned) {
        constexpr int kStep = 16 / sizeof(T);
#pragma unroll
        for (int i = 0; i < kRun; i += kStep) store_packed(to + i, values + i);
    } else {
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            if (i < count) to[i] = gpu::from_float<T>(values[i]);
        }
    }
}

// A view as kernels take it.
template <typename T>
struct Rows {
    T* data;
    RowLayout layout;

    __device__ __forceinline__ T* row(int64_t index) const { return data + layout.offset(index); }
    __device__ __forceinline__ void load(int64_t row_index, int64_t column, int64_t count,
                                         float (&values)[kRun]) const {
        load_run(row(row_index) + column, count, layout.aligned, values);
    }
    __device__ __forceinline__ void store(int64_t row_index, int64_t column, int64_t count,
                                          const float (&values)[kRun]) const {
        store_run(row(row_index) + column, count, layout.aligned, values);
    }
};

template <typename T>
Rows<const T> rows_of(const ConstTensorView& view) {
    return {view.as<T>(), row_layout(view)};
}
template <typename T>
Rows<T> rows_of(const TensorView& view) {
    return {view.as<T>(), row_layout(view)};
}

constexpr int kMaxThreads = 256;

// Threads of a block for `tasks` tasks of a thread each: whole warps, at most kMaxThreads.
inline uint32_t threads_for(int64_t tasks) {
    return static_cast<uint32_t>(tasks >= kMaxThreads ? kMaxThreads : (tasks + 31) / 32 * 32);
}

// body(row, column, values that exist) for this thread's run of the grid of launch_over_runs(),
// whose kernels' first statement this is.
template <typename Body>
__device__ __forceinline__ void for_my_run(const RowLayout& layout, const Body& body) {
    gpu::wait_for_work_before();
    const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kRun;
    if (column < layout.width) body(int64_t{blockIdx.x}, column, layout.width - column);
}

// One thread for each run of `rows`.
template <typename... Parameters, typename... Arguments>
void launch_over_runs(const Context& context, void (*kernel)(Parameters...), const RowLayout& rows,
                      const Arguments&... arguments) {
    if (rows.count == 0 || rows.width == 0) return;
    const int64_t runs = (rows.width + kRun - 1) / kRun;
    const uint32_t threads = threads_for(runs);
    gpu::launch(kernel,
                gpu::Launch{.grid = {static_cast<uint32_t>(rows.count), blocks_for(runs, threads)},
                            .block = {threads},
                            .stream = context.stream,
                            .overlaps = true},
                arguments...);
}

}  // namespace nvllm::cuda
