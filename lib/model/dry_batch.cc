// Shapes as a batch builder and a storage of blocks make them.
#include "lib/model/dry_batch.h"

#include "kernels/ops/kv_cache.h"

namespace nvllm {
namespace {

// No op takes more scratch for blocks of another size.
constexpr int64_t kBlockSize = 16;

}  // namespace

DryBatch::DryBatch(std::span<const CacheLayout> groups, const DryRun& dry, const Context& context,
                   int64_t tokens)
    : dry_(dry), kv_(num_cached_layers(groups)) {
    for (const CacheLayout& group : groups) add(group, tokens);
    batch_.context = &context;
    batch_.token_ids = dry.view(DType::i32, {tokens});
    batch_.rows.positions = dry.view(DType::i32, {tokens});
    batch_.query_start_loc = dry.view(DType::i32, {tokens + 1});
    batch_.seq_lens = dry.view(DType::i32, {tokens});
    batch_.groups = tables_;
    batch_.kv = kv_;
}

void DryBatch::add(const CacheLayout& group, int64_t tokens) {
    if (group.is_state()) {
        add_states(group, tokens);
        return;
    }
    const DType dtype = dry_.context().activations;
    const TensorView values = dry_.view(dtype, {1, group.kv_heads, kBlockSize, group.head_dim});
    const TensorView keys = ops::keys_lie_as_values(dry_.context().device)
                                ? values
                                : dry_.view(dtype, {1, group.kv_heads, group.head_dim, kBlockSize});
    for (const int32_t layer : group.layers) {
        KvLayer& storage = kv_.at(static_cast<size_t>(layer));
        storage.keys = keys;
        if (!group.is_latent()) storage.values = values;
        storage.group = static_cast<int32_t>(tables_.size());
    }
    tables_.push_back({dry_.view(DType::i32, {tokens, 1}), dry_.view(DType::i64, {tokens})});
}

void DryBatch::add_states(const CacheLayout& group, int64_t tokens) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
    for (const int32_t layer : group.layers) {
        KvLayer& storage = kv_.at(static_cast<size_t>(layer));
        storage.state = dry_.view(DType::f32, {1, group.state_bytes / kBytes});
        storage.group = static_cast<int32_t>(tables_.size());
    }
    tables_.push_back({dry_.view(DType::i32, {tokens, 1}), {}});
}

}  // namespace nvllm
