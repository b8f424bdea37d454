// Checks of the way from projection to attention, and the choice of device.
#include "kernels/ops/attention_input.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"
#include "kernels/ops/kv_cache.h"

namespace nvllm::ops {
namespace {

constexpr const char* kOp = "attention_input";

void check_caches(const Context& context, int64_t kv_heads, const ViewLayout& keys,
                  const ViewLayout& values) {
    const KeyAxes axes = key_axes(context.device);
    for (const ViewLayout* cache : {&keys, &values}) {
        NVLLM_CHECK(cache->rank == 4 && is_kv_type(cache->dtype) && has_contiguous_blocks(*cache),
                    std::string(kOp) + ": cache " + cache->describe());
        check_device(context, *cache, kOp);
    }
    NVLLM_CHECK(keys.dtype == values.dtype && keys.dim(0) == values.dim(0) &&
                    keys.dim(1) == kv_heads && values.dim(1) == kv_heads &&
                    keys.dim(axes.position) == values.dim(2) &&
                    keys.dim(axes.head_dim) == values.dim(3),
                std::string(kOp) + ": " + keys.describe() + " beside " + values.describe());
}

void check_options(const Context& context, const AttentionInputOptions& options, int64_t tokens,
                   int64_t head_dim) {
    const bool both = options.query_norm.data != nullptr && options.key_norm.data != nullptr;
    for (const ConstTensorView* weight : {&options.query_norm, &options.key_norm}) {
        if (weight->data != nullptr) check_weights(context, *weight, head_dim, kOp);
    }
    NVLLM_CHECK(!both || options.query_norm.dtype == options.key_norm.dtype,
                std::string(kOp) + ": norms of two types");
    if (options.cosines.data == nullptr) return;
    for (const ConstTensorView* cos_sin : {&options.cosines, &options.sines}) {
        check_rows(context, *cos_sin, 2, kOp);
        NVLLM_CHECK(cos_sin->rank == 2 && cos_sin->dtype == DType::f32 &&
                        cos_sin->dim(0) == tokens && cos_sin->dim(1) == options.cosines.dim(1) &&
                        2 * cos_sin->dim(1) <= head_dim,
                    std::string(kOp) + ": angles " + cos_sin->describe());
    }
}

}  // namespace

void attention_input(const Context& context, const AttentionInputOptions& options,
                     const TensorView& projected, const ConstTensorView& slots,
                     const TensorView& key_cache, const TensorView& value_cache) {
    const BackendOps* device = module_ops(context, kOp);
    check_caches(context, options.kv_heads, key_cache, value_cache);
    check_rows(context, projected, 2, kOp);
    const int64_t head_dim = value_cache.dim(3);
    NVLLM_CHECK(projected.rank == 2 &&
                    projected.dim(1) == (options.heads + 2 * options.kv_heads) * head_dim,
                std::string(kOp) + " cannot take " + projected.describe());
    check_vector(context, slots, DType::i64, projected.dim(0), kOp);
    check_options(context, options, projected.dim(0), head_dim);
    check_scales(context, key_cache, false, options.scales, kOp);
    run_unless_dry(context, device != nullptr ? device->attention_input : cpu::attention_input,
                   options, projected, slots, key_cache, value_cache);
}

}  // namespace nvllm::ops
