// How a head's keys or values become what is stored: rounded, and where the KV type wants it,
// scaled. For .cu files only.
#pragma once

#include <type_traits>

#include "kernels/cuda/elements.h"
#include "kernels/ops/kv_cache.h"

namespace nvllm::cuda {

// Whether storage of C has a scale for each head of a position, which takes a look at all of it.
template <typename C>
constexpr bool kScaledByHead = std::is_same_v<C, int8_t>;

// body(Element<T>{}) for the KV type `dtype`.
template <typename Body>
void with_kv_type(DType dtype, const Body& body) {
    switch (dtype) {
        case DType::f8_e4m3:
            return body(Element<__nv_fp8_e4m3>{});
        case DType::i8:
            return body(Element<int8_t>{});
        default:
            return with_float_type(dtype, body);
    }
}

// Storage of keys or of values.
template <typename C>
struct KvSlotMapping {
    C* data;
    int64_t block_stride;
    bool aligned;
    float factor;   // of float8: one over the layer's scale
    float* scales;  // of int8
    int64_t scale_block_stride;
};

template <typename C>
KvSlotMapping<C> kv_target(const TensorView& cache, float scale, const TensorView& scales) {
    KvSlotMapping<C> target{cache.as<C>(), cache.stride(0), row_layout(cache).aligned,
                            1.0f / scale,  nullptr,         0};
    if constexpr (kScaledByHead<C>) {
        target.scales = scales.as<float>();
        target.scale_block_stride = scales.stride(0);
    }
    return target;
}

// Where one head of one position lies.
struct KvSlot {
    int64_t block;
    int64_t row;  // of the block: head * block_size + offset
};

// max |x| / 127 over a head in a warp's hands, a run a lane, and what values are multiplied with:
// 0 and 0 for a head of next to nothing, NaN and 0 where a value is no number.
struct HeadScale {
    float scale;
    float factor;
};
__device__ __forceinline__ HeadScale scale_of_head(const float (&values)[kRun]) {
    constexpr float kLargest = 127.0f;
    constexpr float kMinHead = 1e-35f;  // of which 127 parts still have a reciprocal
    float most = 0.0f;
    float not_numbers = 0.0f;  // 0 times what is no number is none
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
        most = fmaxf(most, fabsf(values[i]));
        not_numbers += values[i] * 0.0f;
    }
    most = gpu::warp_max(most);
    not_numbers = gpu::warp_sum(not_numbers);
    if (not_numbers != 0.0f) return {NAN, 0.0f};
    if (most < kMinHead) return {0.0f, 0.0f};
    return {most / kLargest, kLargest / most};
}

// Stores the run from `column` on, where it exists. Of int8 all lanes of a warp call this together,
// lane l with run l of the head, which is 0 beyond its end.
template <typename C>
__device__ __forceinline__ void store_head(const KvSlotMapping<C>& target, const KvSlot& place,
                                           int column, int head_dim, float (&values)[kRun]) {
    if constexpr (kScaledByHead<C>) {
        const HeadScale scale = scale_of_head(values);
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
            values[i] = scale.factor > 0.0f ? values[i] * scale.factor : 0.0f;
        }
        if (gpu::lane_id() == 0) {
            target.scales[place.block * target.scale_block_stride + place.row] = scale.scale;
        }
        if (column >= head_dim) return;
    } else if constexpr (std::is_same_v<C, __nv_fp8_e4m3>) {
#pragma unroll
        for (int i = 0; i < kRun; ++i) values[i] *= target.factor;
    }
    store_run(target.data + place.block * target.block_stride + place.row * head_dim + column,
              head_dim - column, target.aligned, values);
}

}  // namespace nvllm::cuda
