// Checks that ops share: what a caller may hand over, and where it must lie.
#pragma once

#include <string>

#include "kernels/context.h"
#include "kernels/error.h"
#include "kernels/ops/backend_ops.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/view.h"

namespace nvllm::ops {

// The ops of the backend that the context's device belongs to; null on the CPU.
inline const BackendOps* module_ops(const Context& context, const char* op) {
    if (context.device.kind == DeviceKind::cpu) {
        NVLLM_CHECK(context.scratch != nullptr && context.threads != nullptr,
                    std::string(op) + " needs scratch memory and threads");
        return nullptr;
    }
    NVLLM_CHECK(context.scratch != nullptr && context.backend != nullptr,
                std::string(op) + " needs scratch memory and the device's backend");
    return context.backend->ops;
}

// Calls an op that takes no scratch: in a dry run it has nothing to do. Ops that take some are
// called in dry runs too, and return when they have taken it.
template <typename Function, typename... Arguments>
void run_unless_dry(const Context& context, Function op, const Arguments&... arguments) {
    if (!context.is_dry_run()) op(context, arguments...);
}

// The op that answers a question about a target.
template <typename Function>
Function op_for(const ComputeTarget& target, Function BackendOps::*op, Function on_cpu) {
    return target.backend != nullptr ? target.backend->ops->*op : on_cpu;
}

// The op of the context's device where a module may lack it. Throws unavailable where it does.
template <typename Function>
Function optional_op(const BackendOps* device, Function BackendOps::*op, Function on_cpu,
                     const char* name) {
    if (device == nullptr) return on_cpu;
    if (device->*op == nullptr) {
        throw Error(ErrorKind::unavailable,
                    std::string(name) + ": the device's module does not have it");
    }
    return device->*op;
}

inline bool is_float_type(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// What ops read and write from token to token: float32 on the CPU, any float type elsewhere.
inline bool is_activation_type(const Context& context, DType dtype) {
    return dtype == DType::f32 || (context.device.kind != DeviceKind::cpu && is_float_type(dtype));
}

// Same rank and sizes; strides and types may differ.
inline bool same_shape(const ViewLayout& a, const ViewLayout& b) {
    return a.rank == b.rank && a.shape == b.shape;
}

// Same rank, sizes and type; strides may differ.
inline bool same_rows(const ViewLayout& a, const ViewLayout& b) {
    return a.dtype == b.dtype && same_shape(a, b);
}

inline void check_device(const Context& context, const ViewLayout& view, const char* op) {
    NVLLM_CHECK(view.device == context.device,
                std::string(op) + ": not in memory of the device: " + view.describe());
}

// Activations, values of a row side by side, at most `max_rank` axes.
inline void check_rows(const Context& context, const ViewLayout& view, int max_rank,
                       const char* op) {
    NVLLM_CHECK(is_activation_type(context, view.dtype) && view.rank >= 1 && view.rank <= max_rank,
                std::string(op) + " cannot take " + view.describe());
    NVLLM_CHECK(view.dim(view.rank - 1) <= 1 || view.stride(view.rank - 1) == 1,
                std::string(op) + " needs the values of a row side by side: " + view.describe());
    check_device(context, view, op);
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

// Scales beside storage of `keys`, where it needs them; of values too, unless there are keys alone.
inline void check_scales(const Context& context, const ViewLayout& keys, bool keys_alone,
                         const KvScales& scales, const char* op) {
    NVLLM_CHECK(scales.key > 0 && scales.value > 0, std::string(op) + ": scales above 0");
    if (keys.dtype != DType::i8) return;
    for (const TensorView* view : {&scales.keys, &scales.values}) {
        if (keys_alone && view == &scales.values) continue;
        NVLLM_CHECK(view->data != nullptr && view->dtype == DType::f32 && view->rank == 3 &&
                        view->dim(0) == keys.dim(0) && view->dim(1) == keys.dim(1) &&
                        view->dim(2) == keys.dim(key_axes(context.device).position) &&
                        has_contiguous_blocks(*view),
                    std::string(op) + ": scales " + view->describe() + " of " + keys.describe());
        check_device(context, *view, op);
    }
}

// A device takes keys whose dimensions are values too up to the size that its module states.
inline void check_keys_alone(const Context& context, int64_t head_dim, const char* op) {
    if (context.device.kind == DeviceKind::cpu || head_dim <= context.backend->max_latent_dim) {
        return;
    }
    throw Error(ErrorKind::unavailable,
                std::string(op) + ": the device takes keys that are values too of at most " +
                    std::to_string(context.backend->max_latent_dim) + " dimensions, not of " +
                    std::to_string(head_dim));
}

// A contiguous vector of `count` values of `dtype`.
inline void check_vector(const Context& context, const ViewLayout& view, DType dtype, int64_t count,
                         const char* op) {
    NVLLM_CHECK(view.dtype == dtype && view.rank == 1 && view.dim(0) == count && view.contiguous(),
                std::string(op) + " needs " + dtype_name(dtype) + "[" + std::to_string(count) +
                    "], not " + view.describe());
    check_device(context, view, op);
}

// A contiguous vector of `count` weights: float32, bfloat16 or float16.
inline void check_weights(const Context& context, const ViewLayout& view, int64_t count,
                          const char* op) {
    NVLLM_CHECK(is_float_type(view.dtype),
                std::string(op) + " cannot take weights " + view.describe());
    check_vector(context, view, view.dtype, count, op);
}

}  // namespace nvllm::ops
