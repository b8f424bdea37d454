// Rotary embedding on the GPU.
//
// rope_cos_sin: a thread an angle; 8 bytes written per angle. rope: one block of up to 256 threads
// a token, a thread for eight pairs; each value is read and written once, 4 bytes per output of
// bfloat16, and the angles once a token. position_factors: a thread a token. No shared memory.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/elements.h"
#include "kernels/cuda/rotate.h"

namespace nvllm::cuda {
namespace {

__global__ void __launch_bounds__(kMaxThreads)
    rope_cos_sin_kernel(const int32_t* __restrict__ positions, const int32_t* __restrict__ choices,
                        const float* __restrict__ frequencies, float attention_scaling,
                        Rows<float> cosines, Rows<float> sines) {
    const int64_t half = cosines.layout.width;
    const int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
    if (i >= half) return;
    const int64_t token = blockIdx.x;
    // The angle is a float32 product; its cosine is taken in double, because angles reach 10⁵.
    const int64_t row = choices != nullptr ? choices[token] : 0;
    const double angle = static_cast<float>(positions[token]) * frequencies[row * half + i];
    cosines.row(token)[i] = static_cast<float>(cos(angle)) * attention_scaling;
    sines.row(token)[i] = static_cast<float>(sin(angle)) * attention_scaling;
}

struct Angles {
    Rows<const float> cosines;
    Rows<const float> sines;
};

// Eight pairs that turn together: `first` and `second` are runs of their own, or neighbours in two
// runs one after the other.
template <typename T>
struct Pairs {
    T* first;
    T* second;
    int64_t first_count;  // values that exist
    int64_t second_count;
    bool interleaved;

    __device__ __forceinline__ void load(bool aligned, float (&a)[kRun], float (&b)[kRun]) const {
        load_run(first, first_count, aligned, a);
        load_run(second, second_count, aligned, b);
        if (!interleaved) return;
        float low[kRun], high[kRun];
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            low[i] = 2 * i < kRun ? a[2 * i % kRun] : b[2 * i % kRun];
            high[i] = 2 * i < kRun ? a[2 * i % kRun + 1] : b[2 * i % kRun + 1];
        }
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            a[i] = low[i];
            b[i] = high[i];
        }
    }

    __device__ __forceinline__ void store(bool aligned, float (&a)[kRun], float (&b)[kRun]) const {
        if (interleaved) {
            float low[kRun], high[kRun];
#pragma unroll
            for (int i = 0; i < kRun; ++i) {
                low[i] = i % 2 == 0 ? a[i / 2] : b[i / 2];
                high[i] = i % 2 == 0 ? a[(kRun + i) / 2] : b[(kRun + i) / 2];
            }
            store_run(first, first_count, aligned, low);
            store_run(second, second_count, aligned, high);
            return;
        }
        store_run(first, first_count, aligned, a);
        store_run(second, second_count, aligned, b);
    }
};

// Of `count` pairs that exist from pair `column` of the head at `head` on.
template <typename T>
__device__ __forceinline__ Pairs<T> pairs_of(T* head, int64_t column, int64_t count, int64_t half,
                                             bool interleaved) {
    if (!interleaved) return {head + column, head + half + column, count, count, false};
    T* const first = head + 2 * column;
    return {first, first + kRun, 2 * count, 2 * count - kRun, true};
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    rope_kernel(Angles cos_sin, T* x, int64_t token_stride, int64_t head_stride, int heads,
                bool interleaved, bool aligned) {
    const int64_t half = cos_sin.cosines.layout.width;
    const int runs = static_cast<int>((half + kRun - 1) / kRun);
    const int64_t token = blockIdx.x;
    for (int task = static_cast<int>(threadIdx.x); task < heads * runs;
         task += static_cast<int>(blockDim.x)) {
        const int64_t column = int64_t{task % runs} * kRun;
        const int64_t count = half - column;
        const Pairs<T> pairs = pairs_of(x + token * token_stride + (task / runs) * head_stride,
                                        column, count, half, interleaved);
        float a[kRun], b[kRun], cosine[kRun], sine[kRun];
        pairs.load(aligned, a, b);
        cos_sin.cosines.load(token, column, count, cosine);
        cos_sin.sines.load(token, column, count, sine);
        rotate_pairs(a, b, cosine, sine);
        pairs.store(aligned, a, b);
    }
}

__global__ void __launch_bounds__(kMaxThreads)
    position_factors_kernel(const int32_t* __restrict__ positions, int64_t count, float beta,
                            int64_t original, int64_t offset, float* __restrict__ factors) {
    const int64_t token = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (token >= count) return;
    const double turns = static_cast<double>((positions[token] + offset) / original);
    factors[token] = 1.0f + beta * static_cast<float>(log(1.0 + turns));
}

}  // namespace

void rope_cos_sin(const Context& context, const ConstTensorView& positions,
                  const ConstTensorView& inverse_frequencies, float attention_scaling,
                  const TensorView& cosines, const TensorView& sines,
                  const ConstTensorView& choices) {
    const int64_t half = cosines.dim(1);
    if (positions.dim(0) == 0 || half == 0) return;
    const uint32_t threads = threads_for(half);
    gpu::launch(
        rope_cos_sin_kernel,
        gpu::Launch{.grid = {static_cast<uint32_t>(positions.dim(0)), blocks_for(half, threads)},
                    .block = {threads},
                    .stream = context.stream},
        positions.as<int32_t>(), choices.as<int32_t>(), inverse_frequencies.as<float>(),
        attention_scaling, rows_of<float>(cosines), rows_of<float>(sines));
}

void rope(const Context& context, const ConstTensorView& cosines, const ConstTensorView& sines,
          ops::RopePairs pairs, const TensorView& x) {
    const int64_t half = cosines.dim(1);
    const int64_t tasks = x.dim(1) * ((half + kRun - 1) / kRun);
    if (x.dim(0) == 0 || tasks == 0) return;
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        gpu::launch(rope_kernel<T>,
                    gpu::Launch{.grid = {static_cast<uint32_t>(x.dim(0))},
                                .block = {threads_for(tasks)},
                                .stream = context.stream},
                    Angles{rows_of<float>(cosines), rows_of<float>(sines)}, x.as<T>(), x.stride(0),
                    x.stride(1), static_cast<int>(x.dim(1)), pairs == ops::RopePairs::interleaved,
                    row_layout(x).aligned && half % kRun == 0);
    });
}

void position_factors(const Context& context, const ConstTensorView& positions, float beta,
                      int64_t original, int64_t offset, const TensorView& factors) {
    const int64_t count = factors.dim(0);
    if (count == 0) return;
    gpu::launch(position_factors_kernel,
                gpu::Launch{.grid = {blocks_for(count, kMaxThreads)},
                            .block = {kMaxThreads},
                            .stream = context.stream},
                positions.as<int32_t>(), count, beta, original, offset, factors.as<float>());
}

}  // namespace nvllm::cuda
