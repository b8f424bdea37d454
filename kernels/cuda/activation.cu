// The MLP's functions on the GPU.
//
// Grid: rows by parts of a row, a block of up to 256 threads for 2,048 values; no shared memory.
// Each value is read and written once: 4 bytes moved per output of activation() in bfloat16, 6 of
// the others.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/elements.h"

namespace nvllm::cuda {
namespace {

using ops::Activation;

constexpr float kInverseSqrt2 = 0.70710678f;
constexpr float kSqrt2OverPi = 0.79788456f;

__device__ __forceinline__ float apply(Activation function, float x) {
    switch (function) {
        case Activation::silu:
            return x / (1.0f + expf(-x));
        case Activation::gelu:
            return 0.5f * x * erfcf(-x * kInverseSqrt2);
        case Activation::gelu_tanh:
            return x / (1.0f + expf(-2.0f * kSqrt2OverPi * gpu::fma(0.044715f * x * x, x, x)));
        case Activation::relu:
            return x < 0.0f ? 0.0f : x;  // what is no number stays none
        case Activation::sigmoid:
            return 1.0f / (1.0f + expf(-x));
        case Activation::identity:
            return x;
    }
    return x;
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    activation_kernel(Activation function, Rows<const T> x, Rows<T> out) {
    for_my_run(x.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        x.load(row, column, count, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] = apply(function, values[i]);
        out.store(row, column, count, values);
    });
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    gated_activation_kernel(Activation function, Rows<const T> gate, Rows<const T> up,
                            Rows<T> out) {
    for_my_run(gate.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        float factors[kRun];
        gate.load(row, column, count, values);
        up.load(row, column, count, factors);
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] = apply(function, values[i]) * factors[i];
        out.store(row, column, count, values);
    });
}

__device__ __forceinline__ float clamped(float alpha, float limit, float gate_value,
                                         float up_value) {
    const float gate = gate_value > limit ? limit : gate_value;
    float up = up_value > limit ? limit : up_value;
    if (up < -limit) up = -limit;
    return gate / (1.0f + expf(-alpha * gate)) * (up + 1.0f);
}

// A run of gates lies with its ups in two runs of `gate_up`.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    clamped_swiglu_kernel(float alpha, float limit, Rows<const T> gate_up, Rows<T> out) {
    for_my_run(out.layout, [&](int64_t row, int64_t column, int64_t count) {
        float both[2][kRun];
        gate_up.load(row, 2 * column, 2 * count, both[0]);
        gate_up.load(row, 2 * column + kRun, 2 * count - kRun, both[1]);
        float values[kRun];
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            values[i] = clamped(alpha, limit, both[2 * i / kRun][2 * i % kRun],
                                both[2 * i / kRun][2 * i % kRun + 1]);
        }
        out.store(row, column, count, values);
    });
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    clamped_halves_kernel(float alpha, float limit, Rows<const T> gate, Rows<const T> up,
                          Rows<T> out) {
    for_my_run(out.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        float ups[kRun];
        gate.load(row, column, count, values);
        up.load(row, column, count, ups);
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] = clamped(alpha, limit, values[i], ups[i]);
        out.store(row, column, count, values);
    });
}

}  // namespace

void activation(const Context& context, Activation function, const ConstTensorView& x,
                const TensorView& out) {
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, activation_kernel<T>, row_layout(x), function, rows_of<T>(x),
                         rows_of<T>(out));
    });
}

void gated_activation(const Context& context, Activation function, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out) {
    with_float_type(gate.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, gated_activation_kernel<T>, row_layout(gate), function,
                         rows_of<T>(gate), rows_of<T>(up), rows_of<T>(out));
    });
}

void clamped_swiglu(const Context& context, float alpha, float limit, ops::GateOrder order,
                    const ConstTensorView& gate_up, const TensorView& out) {
    with_float_type(out.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        if (order == ops::GateOrder::halves) {
            const int64_t width = out.dim(1);
            launch_over_runs(context, clamped_halves_kernel<T>, row_layout(out), alpha, limit,
                             rows_of<T>(gate_up.columns(0, width)),
                             rows_of<T>(gate_up.columns(width, width)), rows_of<T>(out));
            return;
        }
        launch_over_runs(context, clamped_swiglu_kernel<T>, row_layout(out), alpha, limit,
                         rows_of<T>(gate_up), rows_of<T>(out));
    });
}

}  // namespace nvllm::cuda
