// Checks of attention, and the choice of device.
#include "kernels/ops/attention.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_values(const Context& context, const ConstTensorView& keys,
                  const ConstTensorView& values, int64_t value_dim) {
    const KeyAxes axes = key_axes(context.device);
    if (has_keys_alone(values)) {
        check_keys_alone(context, keys.dim(axes.head_dim), "paged_attention");
        NVLLM_CHECK(value_dim > 0 && value_dim <= keys.dim(axes.head_dim),
                    "paged_attention: no values within keys " + keys.describe());
        return;
    }
    check_device(context, values, "paged_attention");
    NVLLM_CHECK(value_dim == 0 && is_kv_type(values.dtype) && values.rank == 4 &&
                    has_contiguous_blocks(values) && keys.dim(0) == values.dim(0) &&
                    keys.dim(1) == values.dim(1) && keys.dim(axes.head_dim) == values.dim(3) &&
                    keys.dim(axes.position) == values.dim(2) && keys.dtype == values.dtype,
                "paged_attention: keys " + keys.describe() + ", values " + values.describe());
}

void check_keys(const Context& context, const ConstTensorView& queries,
                const ConstTensorView& keys) {
    const KeyAxes axes = key_axes(context.device);
    check_device(context, keys, "paged_attention");
    NVLLM_CHECK(is_kv_type(keys.dtype) && keys.rank == 4 && has_contiguous_blocks(keys),
                "paged_attention: keys " + keys.describe());
    NVLLM_CHECK(keys.dim(axes.head_dim) == queries.dim(2) && keys.dim(1) > 0 &&
                    keys.dim(axes.position) > 0 && queries.dim(1) % keys.dim(1) == 0,
                "paged_attention: queries " + queries.describe() + ", keys " + keys.describe());
}

// What the kernel indexes memory with.
void check_sequences(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& keys, const ConstTensorView& query_start_loc,
                     const ConstTensorView& seq_lens, const ConstTensorView& block_tables) {
    const int64_t sequences = seq_lens.dim(0);
    check_vector(context, seq_lens, DType::i32, sequences, "paged_attention lengths");
    check_vector(context, query_start_loc, DType::i32, sequences + 1, "paged_attention starts");
    NVLLM_CHECK(block_tables.dtype == DType::i32 && block_tables.rank == 2 &&
                    block_tables.dim(0) == sequences &&
                    (block_tables.dim(1) <= 1 || block_tables.stride(1) == 1),
                "paged_attention: block tables " + block_tables.describe());
    check_device(context, block_tables, "paged_attention");
    // Whose memory is not to be read here, or is not there.
    if (context.device.kind != DeviceKind::cpu || context.is_dry_run()) return;
    const int32_t* starts = query_start_loc.as<int32_t>();
    for (int64_t s = 0; s < sequences; ++s) {
        const int64_t length = seq_lens.as<int32_t>()[s];
        NVLLM_CHECK(starts[s] >= 0 && starts[s] <= starts[s + 1] &&
                        starts[s + 1] - starts[s] <= length &&
                        length <= block_tables.dim(1) * keys.dim(3),
                    "paged_attention: sequence " + std::to_string(s) + " of length " +
                        std::to_string(length));
    }
    NVLLM_CHECK(starts[sequences] <= queries.dim(0), "paged_attention: more rows than queries");
}

void check_trees(const Context& context, const ConstTensorView& queries,
                 const ConstTensorView& seq_lens, const PagedAttentionOptions& options) {
    const bool on_device = context.device.kind != DeviceKind::cpu;
    NVLLM_CHECK(options.causal && !(on_device && options.window + options.chunk > 0),
                "paged_attention: a tree is of causal attention, and on a device without a window");
    if (options.tree_start_loc.data == nullptr) {
        check_vector(context, options.parents, DType::i32, queries.dim(0),
                     "paged_attention parents");
        return;
    }
    const int64_t sequences = seq_lens.dim(0);
    NVLLM_CHECK(!on_device, "paged_attention: the trees of a device are of its queries");
    check_vector(context, options.tree_start_loc, DType::i32, sequences + 1,
                 "paged_attention tree starts");
    if (context.is_dry_run()) return;
    const int32_t* starts = options.tree_start_loc.as<int32_t>();
    for (int64_t s = 0; s < sequences; ++s) {
        NVLLM_CHECK(starts[s] >= 0 && starts[s] <= starts[s + 1] &&
                        starts[s + 1] - starts[s] <= seq_lens.as<int32_t>()[s],
                    "paged_attention: the tree of sequence " + std::to_string(s));
    }
    check_vector(context, options.parents, DType::i32, starts[sequences],
                 "paged_attention parents");
}

void check_position_bias(const Context& context, const ConstTensorView& queries,
                         const PagedAttentionOptions& options) {
    const ConstTensorView& bias = options.position_bias;
    check_device(context, bias, "paged_attention");
    NVLLM_CHECK(bias.dtype == DType::f32 && bias.rank == 2 && bias.contiguous() &&
                    bias.dim(0) == queries.dim(1) && bias.dim(1) % 2 == 1 && options.scale != 0.0f,
                "paged_attention: a bias of positions " + bias.describe());
}

void check_masks(const Context& context, const ConstTensorView& queries,
                 const ConstTensorView& seq_lens, const PagedAttentionOptions& options) {
    if (options.sinks.data != nullptr) {
        check_vector(context, options.sinks, DType::f32, queries.dim(1), "paged_attention sinks");
    }
    if (options.position_bias.data != nullptr) check_position_bias(context, queries, options);
    if (options.parents.data != nullptr) check_trees(context, queries, seq_lens, options);
}

}  // namespace

void paged_attention(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_start_loc, const ConstTensorView& seq_lens,
                     const ConstTensorView& block_tables, const PagedAttentionOptions& options,
                     const TensorView& out) {
    const BackendOps* device = module_ops(context, "paged_attention");
    NVLLM_CHECK(options.chunk == 0 || (options.causal && options.window == 0),
                "paged_attention: chunks are of causal attention without a window");
    check_rows(context, queries, 3, "paged_attention");
    NVLLM_CHECK(queries.rank == 3, "paged_attention: queries " + queries.describe());
    check_keys(context, queries, key_cache);
    check_values(context, key_cache, value_cache, options.value_dim);
    check_scales(context, key_cache, has_keys_alone(value_cache), options.scales,
                 "paged_attention");
    check_masks(context, queries, seq_lens, options);
    check_sequences(context, queries, key_cache, query_start_loc, seq_lens, block_tables);
    check_device(context, out, "paged_attention");
    NVLLM_CHECK(out.dtype == queries.dtype && out.rank == 3 && out.dim(0) == queries.dim(0) &&
                    out.dim(1) == queries.dim(1) &&
                    out.dim(2) == (options.value_dim > 0 ? options.value_dim : queries.dim(2)) &&
                    out.contiguous(),
                "paged_attention: to " + out.describe());
    (device != nullptr ? device->paged_attention : cpu::paged_attention)(
        context, queries, key_cache, value_cache, query_start_loc, seq_lens, block_tables, options,
        out);
}

}  // namespace nvllm::ops
