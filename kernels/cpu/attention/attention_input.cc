// The way from projection to attention on the CPU: the ops one after another.
#include "kernels/ops/cpu_ops.h"

namespace nvllm::cpu {

void attention_input(const Context& context, const ops::AttentionInputOptions& options,
                     const TensorView& projected, const ConstTensorView& slots,
                     const TensorView& key_cache, const TensorView& value_cache) {
    const int64_t head_dim = value_cache.dim(3);
    const int64_t kv_width = options.kv_heads * head_dim;
    const int64_t width = options.heads * head_dim;
    const TensorView queries = projected.columns(0, width).split_last(options.heads);
    const TensorView keys = projected.columns(width, kv_width).split_last(options.kv_heads);
    const TensorView values =
        projected.columns(width + kv_width, kv_width).split_last(options.kv_heads);
    if (options.query_norm.data != nullptr) {
        cpu::rms_norm(context, queries, options.query_norm, options.query_norm_options, queries);
    }
    if (options.key_norm.data != nullptr) {
        cpu::rms_norm(context, keys, options.key_norm, options.key_norm_options, keys);
    }
    if (options.cosines.data != nullptr) {
        cpu::rope(context, options.cosines, options.sines, options.pairs, queries);
        cpu::rope(context, options.cosines, options.sines, options.pairs, keys);
    }
    cpu::write_kv(context, keys, values, slots, key_cache, value_cache, options.scales);
}

}  // namespace nvllm::cpu
