// Layers of experts on the GPU, without a word to the host.
//
// route_kernel: a warp a token, four in a block; probabilities of the experts in shared memory, 4
// KiB a warp; 4 bytes read per expert of bfloat16, twice. sort_kernel: one block of 1,024 threads
// an expert, which counts the choices of the experts before it and puts its own into ascending
// order, 1,024 choices at a time; each block reads all choices twice, 4 bytes each, mostly from the
// caches. add_outputs_kernel: a thread for eight values of a token, 2 * (per_token + 1) bytes moved
// per output of bfloat16; no shared memory. add_weighted_rows_kernel: alike, 6 bytes per value of
// bfloat16. Products: matmul_*.cu.
#include "kernels/cuda/ops.h"

#include "kernels/cuda/matmul/matmul_selection.h"
#include "kernels/cuda/matmul/matmul_tiles.h"

namespace nvllm::cuda {
namespace {

constexpr int kRouteWarps = 4;
constexpr int kSortThreads = 1024;

template <typename T>
__global__ void __launch_bounds__(kRouteWarps * 32)
    route_kernel(Rows<const T> logits, bool normalize, int per_token, int32_t* __restrict__ experts,
                 float* __restrict__ weights) {
    GPU_SHARED(float, memory, [kRouteWarps][ops::kMaxExperts]);
    const int64_t token = int64_t{blockIdx.x} * kRouteWarps + gpu::warp_id();
    if (token >= logits.layout.count) return;
    float* const probabilities = memory[gpu::warp_id()];
    const int count = static_cast<int>(logits.layout.width);
    const int lane = gpu::lane_id();
    float largest = -INFINITY;
    for (int e = lane; e < count; e += 32) {
        largest = fmaxf(largest, gpu::to_float(logits.row(token)[e]));
    }
    largest = gpu::warp_max(largest);
    float sum = 0.0f;
    for (int e = lane; e < count; e += 32) {
        probabilities[e] = expf(gpu::to_float(logits.row(token)[e]) - largest);
        sum += probabilities[e];
    }
    sum = gpu::warp_sum(sum);
    float chosen_sum = 0.0f;
    for (int rank = 0; rank < per_token; ++rank) {
        // Lanes look at their own experts only, so none reads what another has taken out.
        float best = -1.0f;
        int expert = count;
        for (int e = lane; e < count; e += 32) {
            if (probabilities[e] > best) {
                best = probabilities[e];
                expert = e;
            }
        }
        for (int distance = 16; distance > 0; distance /= 2) {
            const float other = gpu::shuffle_xor(best, distance);
            const int other_expert = gpu::shuffle_xor(expert, distance);
            if (other > best || (other == best && other_expert < expert)) {
                best = other;
                expert = other_expert;
            }
        }
        // Of probabilities that are no numbers none is the best: any expert makes its output none.
        if (expert == count) expert = rank;
        if (expert % 32 == lane) probabilities[expert] = -2.0f;
        const float weight = best / sum;
        chosen_sum += weight;
        if (lane == 0) {
            experts[token * per_token + rank] = expert;
            weights[token * per_token + rank] = weight;
        }
    }
    if (!normalize || lane != 0) return;
    for (int rank = 0; rank < per_token; ++rank) weights[token * per_token + rank] /= chosen_sum;
}

// Starts and order of one expert's choices.
__global__ void __launch_bounds__(kSortThreads)
    sort_kernel(const int32_t* __restrict__ experts, int count, int per_token,
                int32_t* __restrict__ starts, int32_t* __restrict__ order,
                int32_t* __restrict__ tokens) {
    GPU_SHARED(int, sums, [32]);
    const int expert = static_cast<int>(blockIdx.x);
    int before = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kSortThreads) {
        before += experts[i] < expert ? 1 : 0;
    }
    int place = gpu::block_sum(before, sums);
    if (threadIdx.x == 0) starts[expert] = place;
    for (int first = 0; first < count; first += kSortThreads) {
        const int i = first + static_cast<int>(threadIdx.x);
        const bool mine = i < count && experts[i] == expert;
        const uint32_t mask = gpu::ballot(mine);
        __syncthreads();  // the counts of the round before have been read
        if (gpu::lane_id() == 0) sums[gpu::warp_id()] = gpu::count_ones(mask);
        __syncthreads();
        int all = 0;
        int earlier = gpu::count_ones(mask & ((1u << gpu::lane_id()) - 1));
        for (int warp = 0; warp < 32; ++warp) {
            all += sums[warp];
            if (warp < gpu::warp_id()) earlier += sums[warp];
        }
        if (mine) {
            order[place + earlier] = i;
            tokens[place + earlier] = i / per_token;
        }
        place += all;
    }
    if (expert == static_cast<int>(gridDim.x) - 1 && threadIdx.x == 0) starts[expert + 1] = place;
}

// Where each choice's row lies in the order of experts.
__global__ void __launch_bounds__(kMaxThreads)
    invert_kernel(const int32_t* __restrict__ order, int count, int32_t* __restrict__ places) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) places[order[i]] = i;
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    add_outputs_kernel(Rows<const T> x, const int32_t* __restrict__ places,
                       const float* __restrict__ weights, int per_token, bool accumulate,
                       Rows<T> y) {
    for_my_run(y.layout, [&](int64_t token, int64_t column, int64_t count) {
        float sums[kRun] = {};
        if (accumulate) y.load(token, column, count, sums);
        int last = -1;
        for (int n = 0; n < per_token; ++n) {
            // The next in the order of experts: a few choices are quicker searched than sorted.
            int next = INT32_MAX;
            int choice = 0;
            for (int rank = 0; rank < per_token; ++rank) {
                const int place = places[token * per_token + rank];
                if (place > last && place < next) {
                    next = place;
                    choice = static_cast<int>(token) * per_token + rank;
                }
            }
            last = next;
            float values[kRun];
            x.load(next, column, count, values);
#pragma unroll
            for (int i = 0; i < kRun; ++i) {
                sums[i] = gpu::fma(weights[choice], values[i], sums[i]);
            }
        }
        y.store(token, column, count, sums);
    });
}

template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    add_weighted_rows_kernel(Rows<const T> x, const int32_t* __restrict__ rows,
                             const float* __restrict__ weights, Rows<T> y) {
    for_my_run(x.layout, [&](int64_t row, int64_t column, int64_t count) {
        float values[kRun];
        float sums[kRun];
        x.load(row, column, count, values);
        y.load(rows[row], column, count, sums);
        const float weight = weights[row];
#pragma unroll
        for (int i = 0; i < kRun; ++i) sums[i] = gpu::fma(weight, values[i], sums[i]);
        y.store(rows[row], column, count, sums);
    });
}

}  // namespace

void route(const Context& context, const ConstTensorView& logits, bool normalize,
           const TensorView& experts, const TensorView& weights) {
    if (logits.dim(0) == 0) return;
    with_float_type(logits.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        gpu::launch(route_kernel<T>,
                    gpu::Launch{.grid = {blocks_for(logits.dim(0), kRouteWarps)},
                                .block = {kRouteWarps * 32},
                                .stream = context.stream},
                    rows_of<T>(logits), normalize, static_cast<int>(experts.dim(1)),
                    experts.as<int32_t>(), weights.as<float>());
    });
}

void sort_by_expert(const Context& context, const ConstTensorView& experts,
                    const TensorView& starts, const TensorView& order, const TensorView& tokens) {
    gpu::launch(
        sort_kernel,
        gpu::Launch{.grid = {starts.dim(0) - 1}, .block = {kSortThreads}, .stream = context.stream},
        experts.as<int32_t>(), static_cast<int>(experts.numel()), static_cast<int>(experts.dim(1)),
        starts.as<int32_t>(), order.as<int32_t>(), tokens.as<int32_t>());
}

void grouped_matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& starts,
                    const ConstTensorView& weight, DType compute_type, const TensorView& y) {
    MatmulCall call = describe_matmul(x, weight, {}, y);
    call.starts = starts.as<int32_t>();
    call.groups = static_cast<int>(weight.dim(0));
    call.weight_stride = weight.stride(0);
    select_gemm(context, call, weight.dtype, compute_type);
}

void add_expert_outputs(const Context& context, const ConstTensorView& x,
                        const ConstTensorView& order, const ConstTensorView& weights,
                        ops::MatmulOutput output, const TensorView& y) {
    const int64_t count = order.dim(0);
    if (count == 0) return;
    const ScratchArena::Scope scope(*context.scratch);
    auto* const places = context.scratch->take_array<int32_t>(static_cast<size_t>(count));
    if (context.is_dry_run()) return;
    gpu::launch(invert_kernel,
                gpu::Launch{.grid = {blocks_for(count, kMaxThreads)},
                            .block = {kMaxThreads},
                            .stream = context.stream},
                order.as<int32_t>(), static_cast<int>(count), places);
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, add_outputs_kernel<T>, row_layout(y), rows_of<T>(x), places,
                         weights.as<float>(), static_cast<int>(weights.dim(1)),
                         output == ops::MatmulOutput::accumulate, rows_of<T>(y));
    });
}

void add_weighted_rows(const Context& context, const ConstTensorView& x,
                       const ConstTensorView& rows, const ConstTensorView& weights,
                       const TensorView& y) {
    with_float_type(x.dtype, [&](auto element) {
        using T = typename decltype(element)::Type;
        launch_over_runs(context, add_weighted_rows_kernel<T>, row_layout(x), rows_of<T>(x),
                         rows.as<int32_t>(), weights.as<float>(), rows_of<T>(y));
    });
}

}  // namespace nvllm::cuda
