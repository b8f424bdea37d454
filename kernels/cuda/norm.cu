// Normalisations on the GPU: a warp or a block of 256 threads takes a row.
//
// Grid: one block a row, or one for four rows of at most 512 values, which are the heads of
// query and key norms. Shared memory: one float a warp. Each row is read once from memory, a second
// time from the caches, and written once: 4 bytes a value of bfloat16 beside the weights, which all
// rows share. Which thread adds which values depends on the width alone.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/norm_row.h"

namespace nvllm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = 4;     // with a warp a row
constexpr int64_t kWarpWidth = 512;  // widest row that one warp takes

// The sum over the threads of a row, in every one of them.
template <int threads>
__device__ __forceinline__ float row_sum(float value) {
    value = gpu::warp_sum(value);
    if constexpr (threads == 32) {
        return value;
    } else {
        GPU_SHARED(float, parts, [threads / 32]);
        __syncthreads();  // the sum before this one has been read
        if (gpu::lane_id() == 0) parts[gpu::warp_id()] = value;
        __syncthreads();
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < threads / 32; ++i) sum += parts[i];
        return sum;
    }
}

// Which row this thread works on; -1 beyond the last. Only whole warps are beyond.
template <int threads>
__device__ __forceinline__ int64_t row_of_thread(int64_t count) {
    if constexpr (threads == 32) {
        const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + gpu::warp_id();
        return row < count ? row : -1;
    } else {
        return blockIdx.x;
    }
}

// body(column, values that exist) for the runs of this thread.
template <int threads, typename Body>
__device__ __forceinline__ void for_each_run(int64_t width, const Body& body) {
    const int thread = threads == 32 ? gpu::lane_id() : static_cast<int>(threadIdx.x);
    for (int64_t column = int64_t{thread} * kRun; column < width; column += threads * kRun) {
        body(column, width - column);
    }
}

template <int threads, typename T, typename W>
__global__ void __launch_bounds__(threads == 32 ? 32 * kRowsPerBlock : threads)
    rms_norm_kernel(Rows<const T> x, Scale<W> scale, float epsilon, Rows<T> out) {
    gpu::wait_for_work_before();
    const int64_t row = row_of_thread<threads>(x.layout.count);
    if (row < 0) return;
    const T* const from = x.data + x.layout.offset(row);
    T* const to = out.data + out.layout.offset(row);
    const int64_t width = x.layout.width;
    float squares = 0.0f;
    for_each_run<threads>(width, [&](int64_t column, int64_t count) {
        float values[kRun];
        load_run(from + column, count, x.layout.aligned, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) squares = gpu::fma(values[i], values[i], squares);
    });
    const float factor = inverse_root(row_sum<threads>(squares), width, epsilon);
    for_each_run<threads>(width, [&](int64_t column, int64_t count) {
        float values[kRun];
        load_run(from + column, count, x.layout.aligned, values);
        scale.apply(column, count, 0.0f, factor, values);
        store_run(to + column, count, out.layout.aligned, values);
    });
}

// The variance is summed around the mean in a pass of its own: E[x²] - E[x]² would cancel.
template <int threads, typename T, typename W>
__global__ void __launch_bounds__(threads == 32 ? 32 * kRowsPerBlock : threads)
    layer_norm_kernel(Rows<const T> x, Scale<W> scale, float epsilon, Rows<T> out) {
    gpu::wait_for_work_before();
    const int64_t row = row_of_thread<threads>(x.layout.count);
    if (row < 0) return;
    const T* const from = x.data + x.layout.offset(row);
    T* const to = out.data + out.layout.offset(row);
    const int64_t width = x.layout.width;
    float sum = 0.0f;
    for_each_run<threads>(width, [&](int64_t column, int64_t count) {
        float values[kRun];
        load_run(from + column, count, x.layout.aligned, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) sum += values[i];
    });
    const float mean = row_sum<threads>(sum) / static_cast<float>(width);
    float squares = 0.0f;
    for_each_run<threads>(width, [&](int64_t column, int64_t count) {
        float values[kRun];
        load_run(from + column, count, x.layout.aligned, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            const float distance = i < count ? values[i] - mean : 0.0f;
            squares = gpu::fma(distance, distance, squares);
        }
    });
    const float factor = inverse_root(row_sum<threads>(squares), width, epsilon);
    for_each_run<threads>(width, [&](int64_t column, int64_t count) {
        float values[kRun];
        load_run(from + column, count, x.layout.aligned, values);
        scale.apply(column, count, mean, factor, values);
        store_run(to + column, count, out.layout.aligned, values);
    });
}

// body(threads a row, block, grid) as the width wants it.
template <typename Body>
void with_threads(const ConstTensorView& x, const Body& body) {
    const int64_t rows = row_layout(x).count;
    if (rows == 0) return;
    if (x.dim(x.rank - 1) <= kWarpWidth) {
        body(std::integral_constant<int, 32>{}, 32u * kRowsPerBlock,
             blocks_for(rows, kRowsPerBlock));
    } else {
        body(std::integral_constant<int, kThreads>{}, uint32_t{kThreads},
             static_cast<uint32_t>(rows));
    }
}

// body(Element<T>, Element<W>) of activations and weights.
template <typename Body>
void with_types(const ConstTensorView& x, const ConstTensorView& weight, const Body& body) {
    with_float_type(x.dtype, [&](auto activation) {
        with_float_type(weight.dtype, [&](auto stored) { body(activation, stored); });
    });
}

}  // namespace

void rms_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
              const ops::RmsNormOptions& options, const TensorView& out) {
    with_types(x, weight, [&](auto activation, auto stored) {
        using T = typename decltype(activation)::Type;
        using W = typename decltype(stored)::Type;
        with_threads(x, [&](auto threads, uint32_t block, uint32_t grid) {
            gpu::launch(
                rms_norm_kernel<decltype(threads)::value, T, W>,
                gpu::Launch{
                    .grid = {grid}, .block = {block}, .stream = context.stream, .overlaps = true},
                rows_of<T>(x), scale_of<W>(weight, {}, options.weight_offset), options.epsilon,
                rows_of<T>(out));
        });
    });
}

void layer_norm(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, float epsilon, const TensorView& out) {
    with_types(x, weight, [&](auto activation, auto stored) {
        using T = typename decltype(activation)::Type;
        using W = typename decltype(stored)::Type;
        with_threads(x, [&](auto threads, uint32_t block, uint32_t grid) {
            gpu::launch(
                layer_norm_kernel<decltype(threads)::value, T, W>,
                gpu::Launch{
                    .grid = {grid}, .block = {block}, .stream = context.stream, .overlaps = true},
                rows_of<T>(x), scale_of<W>(weight, bias, 0.0f), epsilon, rows_of<T>(out));
        });
    });
}

}  // namespace nvllm::cuda
