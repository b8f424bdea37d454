// Checks of writes to key-value storage, and the choice of device.
#include "kernels/ops/kv_cache.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_cache(const Context& context, const ViewLayout& cache, int head_dim_axis,
                 const ViewLayout& rows, const char* name) {
    NVLLM_CHECK(cache.rank == 4 && is_kv_type(cache.dtype) && has_contiguous_blocks(cache),
                std::string("write_kv: cache ") + cache.describe());
    check_device(context, cache, "write_kv");
    check_rows(context, rows, 3, "write_kv");
    NVLLM_CHECK(
        rows.rank == 3 && rows.dim(1) == cache.dim(1) && rows.dim(2) == cache.dim(head_dim_axis),
        std::string("write_kv: ") + name + " " + rows.describe() + " to " + cache.describe());
}

void check_values(const Context& context, const ConstTensorView& keys,
                  const ConstTensorView& values, const TensorView& key_cache,
                  const TensorView& value_cache) {
    check_cache(context, value_cache, 3, values, "values");
    NVLLM_CHECK(key_cache.dim(0) == value_cache.dim(0) &&
                    key_cache.dim(key_axes(context.device).position) == value_cache.dim(2) &&
                    (key_cache.dtype == DType::i8) == (value_cache.dtype == DType::i8),
                "write_kv: " + key_cache.describe() + " beside " + value_cache.describe());
    NVLLM_CHECK(keys.dim(0) == values.dim(0) && keys.dtype == values.dtype,
                "write_kv: " + keys.describe() + " beside " + values.describe());
}

// Storage of keys and of values on the CPU.
bool lie_alike(const ViewLayout& key_cache, const ViewLayout& value_cache) {
    return value_cache.rank == 4 && key_cache.dim(0) == value_cache.dim(0) &&
           key_cache.dim(3) == value_cache.dim(2) && key_cache.dtype == value_cache.dtype &&
           has_contiguous_blocks(value_cache);
}

}  // namespace

void write_kv(const Context& context, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache, const KvScales& scales) {
    const BackendOps* device = module_ops(context, "write_kv");
    check_cache(context, key_cache, key_axes(context.device).head_dim, keys, "keys");
    if (has_keys_alone(value_cache)) {
        check_keys_alone(context, keys.dim(2), "write_kv");
    } else {
        check_values(context, keys, values, key_cache, value_cache);
    }
    check_vector(context, slots, DType::i64, keys.dim(0), "write_kv");
    check_scales(context, key_cache, has_keys_alone(value_cache), scales, "write_kv");
    run_unless_dry(context, device != nullptr ? device->write_kv : cpu::write_kv, keys, values,
                   slots, key_cache, value_cache, scales);
}

void copy_blocks(const Context& context, const ConstTensorView& pairs,
                 const ConstTensorView& source, const TensorView& target) {
    const BackendOps* device = module_ops(context, "copy_blocks");
    NVLLM_CHECK(source.rank >= 1 && source.contiguous() && target.contiguous() &&
                    source.dtype == target.dtype && source.stride(0) == target.stride(0),
                "copy_blocks: from " + source.describe() + " to " + target.describe());
    NVLLM_CHECK(
        pairs.dtype == DType::i32 && pairs.rank == 2 && pairs.dim(1) == 2 && pairs.contiguous(),
        "copy_blocks: pairs " + pairs.describe());
    for (const ViewLayout* view :
         {static_cast<const ViewLayout*>(&pairs), static_cast<const ViewLayout*>(&source),
          static_cast<const ViewLayout*>(&target)}) {
        check_device(context, *view, "copy_blocks");
    }
    run_unless_dry(context, device != nullptr ? device->copy_blocks : cpu::copy_blocks, pairs,
                   source, target);
}

void move_slots(const Context& context, const ConstTensorView& pairs, const TensorView& key_cache,
                const TensorView& value_cache, const KvScales& scales) {
    NVLLM_CHECK(context.device.kind == DeviceKind::cpu, "move_slots: on the CPU alone");
    NVLLM_CHECK(
        pairs.dtype == DType::i64 && pairs.rank == 2 && pairs.dim(1) == 2 && pairs.contiguous(),
        "move_slots: pairs " + pairs.describe());
    NVLLM_CHECK(key_cache.rank == 4 && has_contiguous_blocks(key_cache) &&
                    (has_keys_alone(value_cache) || lie_alike(key_cache, value_cache)),
                "move_slots: " + key_cache.describe() + " beside " + value_cache.describe());
    check_scales(context, key_cache, has_keys_alone(value_cache), scales, "move_slots");
    run_unless_dry(context, cpu::move_slots, pairs, key_cache, value_cache, scales);
}

}  // namespace nvllm::ops
