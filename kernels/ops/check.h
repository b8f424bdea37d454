// Checks that ops share: what a caller may hand over.
#pragma once

#include <string>

#include "kernels/context.h"
#include "kernels/error.h"
#include "kernels/view.h"

namespace nvllm::ops {

// Throws Error{unavailable} unless the context's device has an implementation here.
inline void require_cpu(const Context& context, const char* op) {
    if (context.device.kind != DeviceKind::cpu) {
        throw Error(ErrorKind::unavailable,
                    std::string(op) + ": this build computes on the CPU only");
    }
    NVLLM_CHECK(context.scratch != nullptr && context.threads != nullptr,
                std::string(op) + " needs scratch memory and threads");
}

inline bool is_float_type(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// Same rank and sizes; strides and types may differ.
inline bool same_shape(const ViewLayout& a, const ViewLayout& b) {
    return a.rank == b.rank && a.shape == b.shape;
}

// float32, values of a row side by side, at most `max_rank` axes.
inline void check_rows(const ViewLayout& view, int max_rank, const char* op) {
    NVLLM_CHECK(view.dtype == DType::f32 && view.rank >= 1 && view.rank <= max_rank,
                std::string(op) + " cannot take " + view.describe());
    NVLLM_CHECK(view.dim(view.rank - 1) <= 1 || view.stride(view.rank - 1) == 1,
                std::string(op) + " needs the values of a row side by side: " + view.describe());
    NVLLM_CHECK(view.device.kind == DeviceKind::cpu, std::string(op) + ": not in CPU memory");
}

// Blocks along the first axis, each contiguous, with any gap between them.
inline bool has_contiguous_blocks(const ViewLayout& view) {
    int64_t count = 1;
    for (int axis = view.rank - 1; axis > 0; --axis) {
        if (view.dim(axis) > 1 && view.stride(axis) != count) return false;
        count *= view.dim(axis);
    }
    return view.rank > 0 && (view.dim(0) <= 1 || view.stride(0) >= count);
}

// A contiguous vector of `count` values of `dtype`.
inline void check_vector(const ViewLayout& view, DType dtype, int64_t count, const char* op) {
    NVLLM_CHECK(view.dtype == dtype && view.rank == 1 && view.dim(0) == count && view.contiguous(),
                std::string(op) + " needs " + dtype_name(dtype) + "[" + std::to_string(count) +
                    "], not " + view.describe());
}

// A contiguous vector of `count` weights: float32, bfloat16 or float16.
inline void check_weights(const ViewLayout& view, int64_t count, const char* op) {
    NVLLM_CHECK(is_float_type(view.dtype),
                std::string(op) + " cannot take weights " + view.describe());
    check_vector(view, view.dtype, count, op);
}

}  // namespace nvllm::ops
