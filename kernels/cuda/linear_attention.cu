// Layers with states on the GPU.
//
// causal_conv1d: a thread a channel of a sequence, which takes the tokens in order; the inputs of
// the last few tokens come from the first cache. l2_norm: a warp a row. state_gates: a thread
// a gate. linear_attention: a block of 32 columns of a head's state, a thread a column, tokens in
// order: in answers the state is read twice and written once, 12 bytes a value, of which the second
// read mostly hits the caches. No shared memory. Sums are in the CPU's order.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/elements.h"

namespace nvllm::cuda {
namespace {

constexpr int kColumns = 32;      // of a state, in a block
constexpr int kSums = 4;          // of a column, over every fourth dimension of the key
constexpr int kRowsPerBlock = 4;  // with a warp a row

// ops::StateRows as kernels take them.
struct Sequences {
    const int32_t* starts;
    const int32_t* lengths;
    const int32_t* slots;
    int64_t slot_stride;
    int64_t count;

    __device__ __forceinline__ int64_t begin(int64_t index) const { return starts[index]; }
    __device__ __forceinline__ int64_t end(int64_t index) const { return starts[index + 1]; }
    __device__ __forceinline__ bool is_new(int64_t index) const {
        return lengths[index] == starts[index + 1] - starts[index];
    }
    __device__ __forceinline__ int64_t slot(int64_t index) const {
        return slots[index * slot_stride];
    }
};

Sequences sequences_of(const ops::StateRows& rows) {
    return {rows.query_start_loc.as<int32_t>(), rows.seq_lens.as<int32_t>(),
            rows.slots.as<int32_t>(), rows.slots.stride(0), rows.seq_lens.dim(0)};
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    conv_kernel(Rows<const T> x, const float* __restrict__ weight, const float* __restrict__ bias,
                int taps, Sequences sequences, float* states, int64_t state_stride, Rows<T> out) {
    gpu::wait_for_work_before();
    const int64_t channels = x.layout.width;
    const int64_t channel = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
    if (channel >= channels) return;
    const int64_t sequence = blockIdx.x;
    const int64_t begin = sequences.begin(sequence);
    const int64_t count = sequences.end(sequence) - begin;
    const bool is_new = sequences.is_new(sequence);
    const int kept = taps - 1;
    float* const state = states + sequences.slot(sequence) * state_stride + channel;
    const auto input = [&](int64_t token) {
        if (token >= 0) return gpu::to_float(x.row(begin + token)[channel]);
        return is_new ? 0.0f : state[(kept + token) * channels];
    };
    for (int64_t token = 0; token < count; ++token) {
        float sum = bias == nullptr ? 0.0f : bias[channel];
        for (int tap = 0; tap < taps; ++tap) {
            sum = gpu::fma(weight[tap * channels + channel], input(token - kept + tap), sum);
        }
        out.row(begin + token)[channel] = gpu::from_float<T>(sum);
    }
    // In ascending order none is overwritten before it was read.
    for (int i = 0; i < kept; ++i) state[i * channels] = input(count - kept + i);
}

template <typename T>
__global__ void __launch_bounds__(32 * kRowsPerBlock)
    l2_norm_kernel(Rows<const T> x, float epsilon, float scale, Rows<T> out) {
    gpu::wait_for_work_before();
    const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + gpu::warp_id();
    if (row >= x.layout.count) return;
    const int64_t width = x.layout.width;
    float squares = 0.0f;
    for (int64_t column = int64_t{gpu::lane_id()} * kRun; column < width; column += 32 * kRun) {
        float values[kRun];
        x.load(row, column, width - column, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) squares = gpu::fma(values[i], values[i], squares);
    }
    const float factor = 1.0f / sqrtf(gpu::warp_sum(squares) + epsilon) * scale;
    for (int64_t column = int64_t{gpu::lane_id()} * kRun; column < width; column += 32 * kRun) {
        float values[kRun];
        x.load(row, column, width - column, values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] *= factor;
        out.store(row, column, width - column, values);
    }
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    gates_kernel(Rows<const T> a, Rows<const T> b, bool has_b, int64_t decays,
                 const float* __restrict__ a_log, const float* __restrict__ dt_bias,
                 float least_step, float* decay, float* update) {
    gpu::wait_for_work_before();
    const int64_t width = a.layout.width;
    const int64_t gate = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
    if (gate >= width) return;
    const int64_t token = blockIdx.x;
    const int64_t head = gate / decays;
    const float x = gpu::to_float(a.row(token)[gate]) + dt_bias[gate];
    float step = x > 20.0f ? x : log1pf(expf(x));
    if (step < least_step) step = least_step;
    decay[token * width + gate] = expf(-expf(a_log[head]) * step);
    if (gate % decays != 0) return;
    update[token * (width / decays) + head] =
        has_b ? 1.0f / (1.0f + expf(-gpu::to_float(b.row(token)[head]))) : step;
}

// Views [tokens, heads, dim] by their strides.
template <typename T>
struct Heads {
    T* data;
    int64_t token_stride;
    int64_t head_stride;

    __device__ __forceinline__ T* at(int64_t token, int64_t head) const {
        return data + token * token_stride + head * head_stride;
    }
};

template <typename T, typename View>
Heads<T> heads_of(const View& view) {
    return {view.template as<T>(), view.stride(0), view.stride(1)};
}

template <typename T>
struct RuleInput {
    Heads<const T> queries;
    Heads<const T> keys;
    Heads<const T> values;
    const float* decay;
    const float* update;
    bool is_delta;
    const float* skip;  // null: of zeros
    int64_t heads;
    int64_t heads_per_key;
    int64_t key_dim;
    int64_t value_dim;
};

__device__ __forceinline__ float total(const float (&sums)[kSums]) {
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <typename Body>
__device__ __forceinline__ void for_each_dimension(int64_t count, const Body& body) {
    for (int64_t i = 0; i < count; i += kSums) {
#pragma unroll
        for (int sum = 0; sum < kSums; ++sum) {
            if (i + sum < count) body(i + sum, sum);
        }
    }
}

template <typename T, bool by_dimension>
__global__ void __launch_bounds__(kColumns)
    rule_kernel(RuleInput<T> input, Sequences sequences, float* states, int64_t state_stride,
                Heads<T> out) {
    gpu::wait_for_work_before();
    const int64_t column = int64_t{blockIdx.y} * kColumns + threadIdx.x;
    if (column >= input.value_dim) return;
    const int64_t sequence = int64_t{blockIdx.x} / input.heads;
    const int64_t head = int64_t{blockIdx.x} % input.heads;
    const int64_t key_head = head / input.heads_per_key;
    const int64_t width = input.value_dim;
    const float skip = input.skip == nullptr ? 0.0f : input.skip[head];
    float* const state =
        states + sequences.slot(sequence) * state_stride + head * input.key_dim * width + column;
    if (sequences.is_new(sequence)) {
        for (int64_t i = 0; i < input.key_dim; ++i) state[i * width] = 0.0f;
    }
    for (int64_t token = sequences.begin(sequence); token < sequences.end(sequence); ++token) {
        const T* const query = input.queries.at(token, key_head);
        const T* const key = input.keys.at(token, key_head);
        const int64_t gate = token * input.heads + head;
        const float* const decays = input.decay + (by_dimension ? gate * input.key_dim : gate);
        const float update = input.update[gate];
        float sums[kSums] = {};
        if (input.is_delta) {
            for_each_dimension(input.key_dim, [&](int64_t i, int sum) {
                const float k = gpu::to_float(key[i]);
                sums[sum] = gpu::fma(by_dimension ? k * decays[i] : k, state[i * width], sums[sum]);
            });
        }
        const float value = gpu::to_float(input.values.at(token, head)[column]);
        const float expected = by_dimension ? total(sums) : decays[0] * total(sums);
        const float change = update * (value - expected);
        for (float& sum : sums) sum = 0.0f;
        for_each_dimension(input.key_dim, [&](int64_t i, int sum) {
            const float decay = decays[by_dimension ? i : 0];
            const float next = gpu::fma(gpu::to_float(key[i]), change, decay * state[i * width]);
            state[i * width] = next;
            sums[sum] = gpu::fma(gpu::to_float(query[i]), next, sums[sum]);
        });
        out.at(token, head)[column] = gpu::from_float<T>(gpu::fma(skip, value, total(sums)));
    }
}

}  // namespace

void causal_conv1d(const Context& context, const ConstTensorView& x,
                   const ops::ConvWeights& weights, const ops::StateRows& rows,
                   const TensorView& states, const TensorView& out) {
    const ConstTensorView& weight = weights.taps;
    const float* const bias = weights.bias.rank > 0 ? weights.bias.as<float>() : nullptr;
    const Sequences sequences = sequences_of(rows);
    if (sequences.count == 0 || x.dim(1) == 0) return;
    const uint32_t threads = threads_for(x.dim(1));
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        gpu::launch(conv_kernel<T>,
                    gpu::Launch{.grid = {static_cast<uint32_t>(sequences.count),
                                         blocks_for(x.dim(1), threads)},
                                .block = {threads},
                                .stream = context.stream,
                                .overlaps = true},
                    rows_of<T>(x), weight.as<float>(), bias, static_cast<int>(weight.dim(0)),
                    sequences, states.as<float>(), states.stride(0), rows_of<T>(out));
    });
}

void l2_norm(const Context& context, const ConstTensorView& x, float epsilon, float scale,
             const TensorView& out) {
    const int64_t count = row_layout(x).count;
    if (count == 0) return;
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        gpu::launch(l2_norm_kernel<T>,
                    gpu::Launch{.grid = {blocks_for(count, kRowsPerBlock)},
                                .block = {32 * kRowsPerBlock},
                                .stream = context.stream,
                                .overlaps = true},
                    rows_of<T>(x), epsilon, scale, rows_of<T>(out));
    });
}

void state_gates(const Context& context, const ConstTensorView& a, const ConstTensorView& b,
                 const ops::GateWeights& weights, const TensorView& decay,
                 const TensorView& update) {
    if (a.numel() == 0) return;
    const uint32_t threads = threads_for(a.dim(1));
    with_float_type(a.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        gpu::launch(
            gates_kernel<T>,
            gpu::Launch{.grid = {static_cast<uint32_t>(a.dim(0)), blocks_for(a.dim(1), threads)},
                        .block = {threads},
                        .stream = context.stream,
                        .overlaps = true},
            rows_of<T>(a), b.rank > 0 ? rows_of<T>(b) : rows_of<T>(a), b.rank > 0,
            a.dim(1) / weights.a_log.dim(0), weights.a_log.as<float>(), weights.dt_bias.as<float>(),
            weights.least_step, decay.as<float>(), update.as<float>());
    });
}

void linear_attention(const Context& context, const ops::LinearAttentionInput& input,
                      const ops::StateRows& rows, const TensorView& states, const TensorView& out) {
    const Sequences sequences = sequences_of(rows);
    const int64_t heads = states.dim(1);
    if (sequences.count == 0 || states.dim(3) == 0) return;
    with_float_type(out.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        const RuleInput<T> rule = {heads_of<const T>(input.queries),
                                   heads_of<const T>(input.keys),
                                   heads_of<const T>(input.values),
                                   input.decay.as<float>(),
                                   input.update.as<float>(),
                                   input.is_delta,
                                   input.skip.rank > 0 ? input.skip.as<float>() : nullptr,
                                   heads,
                                   heads / input.keys.dim(1),
                                   states.dim(2),
                                   states.dim(3)};
        const auto kernel = input.decay.rank == 3 ? rule_kernel<T, true> : rule_kernel<T, false>;
        gpu::launch(kernel,
                    gpu::Launch{.grid = {static_cast<uint32_t>(sequences.count * heads),
                                         blocks_for(states.dim(3), kColumns)},
                                .block = {kColumns},
                                .stream = context.stream,
                                .overlaps = true},
                    rule, sequences, states.as<float>(), states.stride(0), heads_of<T>(out));
    });
}

}  // namespace nvllm::cuda
