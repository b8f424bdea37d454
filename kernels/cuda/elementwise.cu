// Small element-wise ops on the GPU.
//
// Grid: rows by parts of a row, a block of up to 256 threads for 2,048 values; no shared memory.
// Bytes moved per output in bfloat16: 6 by add and gate, 4 by the others (convert: what its types
// take). fill_random: a thread for four values wherever they lie, 2 bytes each.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/elements.h"
#include "kernels/random.h"

namespace nvllm::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kMaxThreads) add_kernel(Rows<const T> x, Rows<T> y) {
    for_my_run(x.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        float sums[kRun];
        x.load(row, column, count, values);
        y.load(row, column, count, sums);
#pragma unroll
        for (int i = 0; i < kRun; ++i) sums[i] += values[i];
        y.store(row, column, count, sums);
    });
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads) copy_kernel(Rows<const T> x, Rows<T> out) {
    for_my_run(x.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        x.load(row, column, count, values);
        out.store(row, column, count, values);
    });
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads) soft_cap_kernel(float cap, Rows<T> x) {
    for_my_run(x.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        x.load(row, column, count, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] = cap * tanhf(values[i] / cap);
        x.store(row, column, count, values);
    });
}

// A block a row. Magnitudes are compared by their bits, so that what is no number is the largest.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads) row_maxima_kernel(Rows<const T> x, float* out) {
    gpu::wait_for_work_before();
    GPU_SHARED(uint32_t, parts, [32]);
    uint32_t largest = 0;
    const int64_t row = blockIdx.x;
    for (int64_t column = threadIdx.x * kRun; column < x.layout.width;
         column += kMaxThreads * kRun) {
        float values[kRun];
        const int64_t count = x.layout.width - column;
        x.load(row, column, count, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            const uint32_t bits = gpu::float_as_bits(values[i]) & 0x7fffffffu;
            largest = i < count && largest < bits ? bits : largest;
        }
    }
    largest = gpu::block_max(largest, parts);
    if (threadIdx.x == 0) out[row] = gpu::bits_as_float(largest);
}

// `factors` null: all rows have `factor`.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    scale_kernel(float factor, const float* __restrict__ factors, Rows<T> x) {
    for_my_run(x.layout, [&](int64_t row, int64_t column, int64_t count) {
        const float by = factors != nullptr ? factors[row] : factor;
        float values[kRun];
        x.load(row, column, count, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] *= by;
        x.store(row, column, count, values);
    });
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    gather_rows_kernel(Rows<const T> x, const int32_t* __restrict__ rows, Rows<T> out) {
    for_my_run(out.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        x.load(rows[row], column, count, values);
        out.store(row, column, count, values);
    });
}

template <typename From, typename To>
__global__ void __launch_bounds__(kMaxThreads) convert_kernel(Rows<const From> x, Rows<To> out) {
    for_my_run(x.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        x.load(row, column, count, values);
        out.store(row, column, count, values);
    });
}

// Four values a thread, from one counter. T: anything of the values' size.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    fill_random_kernel(uint64_t key, const T* __restrict__ table, uint32_t mask, T* out,
                       int64_t count) {
    const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
    const uint64_t bits = mixed_bits(key + static_cast<uint64_t>(first));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (first + i < count) {
            out[first + i] = table[static_cast<uint32_t>(bits >> (16 * i)) & mask];
        }
    }
}

template <typename T>
void fill(const Context& context, uint64_t key, const ConstTensorView& table,
          const TensorView& out) {
    gpu::launch(fill_random_kernel<T>,
                gpu::Launch{.grid = {blocks_for(out.numel(), 4 * kMaxThreads)},
                            .block = {kMaxThreads},
                            .stream = context.stream},
                key, table.as<T>(), static_cast<uint32_t>(table.numel() - 1), out.as<T>(),
                out.numel());
}

// A contiguous view as rows that are neither too short nor too long for a block.
ViewLayout as_long_rows(const ViewLayout& view) {
    constexpr int64_t kWidth = kMaxThreads * kRun;
    const int64_t count = view.numel();
    if (count % kWidth == 0) return ViewLayout::dense(view.dtype, {count / kWidth, kWidth});
    return ViewLayout::dense(view.dtype, {1, count});
}

void scale_by(const Context& context, float factor, const float* factors, const TensorView& x) {
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, scale_kernel<T>, row_layout(x), factor, factors, rows_of<T>(x));
    });
}

}  // namespace

void add(const Context& context, const ConstTensorView& x, const TensorView& y) {
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, add_kernel<T>, row_layout(x), rows_of<T>(x), rows_of<T>(y));
    });
}

void copy(const Context& context, const ConstTensorView& x, const TensorView& out) {
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, copy_kernel<T>, row_layout(x), rows_of<T>(x), rows_of<T>(out));
    });
}

void soft_cap(const Context& context, float cap, const TensorView& x) {
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, soft_cap_kernel<T>, row_layout(x), cap, rows_of<T>(x));
    });
}

void scale(const Context& context, float factor, const TensorView& x) {
    scale_by(context, factor, nullptr, x);
}

void scale_rows(const Context& context, const ConstTensorView& factors, const TensorView& x) {
    scale_by(context, 1.0f, factors.as<float>(), x);
}

void row_maxima(const Context& context, const ConstTensorView& x, const TensorView& out) {
    if (x.dim(0) == 0) return;
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        gpu::launch(row_maxima_kernel<T>,
                    gpu::Launch{.grid = {static_cast<uint32_t>(x.dim(0))},
                                .block = {kMaxThreads},
                                .stream = context.stream},
                    rows_of<T>(x), out.as<float>());
    });
}

void gather_rows(const Context& context, const ConstTensorView& x, const ConstTensorView& rows,
                 const TensorView& out) {
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, gather_rows_kernel<T>, row_layout(out), rows_of<T>(x),
                         rows.as<int32_t>(), rows_of<T>(out));
    });
}

void convert(const Context& context, const ConstTensorView& x, const TensorView& out) {
    const ConstTensorView from(x.data, as_long_rows(x));
    const TensorView to(out.data, as_long_rows(out));
    with_float_type(x.dtype, [&](auto element) {
        using From = typename decltype(element)::Type;
        with_float_type(out.dtype, [&](auto wanted) {
            using To = typename decltype(wanted)::Type;
            launch_over_runs(context, convert_kernel<From, To>, row_layout(from),
                             rows_of<From>(from), rows_of<To>(to));
        });
    });
}

void fill_random(const Context& context, uint64_t key, const ConstTensorView& table,
                 const TensorView& out) {
    if (out.numel() == 0) return;
    if (dtype_bytes(out.dtype) == sizeof(uint16_t)) {
        fill<uint16_t>(context, key, table, out);
    } else {
        fill<uint32_t>(context, key, table, out);
    }
}

}  // namespace nvllm::cuda
