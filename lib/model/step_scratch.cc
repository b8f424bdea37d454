// Batches of views without memory.
#include "lib/model/step_scratch.h"

#include <algorithm>
#include <vector>

#include "kernels/host/dry_run.h"
#include "kernels/ops/kv_cache.h"
#include "lib/model/forward_pass.h"

namespace nvllm {
namespace {

// No op takes more scratch for blocks of another size.
constexpr int64_t kBlockSize = 16;

// A batch of sequences of one token each, of which there cannot be more.
class BatchWithoutMemory {
  public:
    BatchWithoutMemory(const Model& model, const DryRun& dry, int64_t tokens) : dry_(dry) {
        kv_.resize(static_cast<size_t>(model.num_blocks()));
        for (const CacheLayout& group : model.kv_groups()) add(group, tokens);
        batch_.context = &dry.context();
        batch_.token_ids = dry.view(DType::i32, {tokens});
        batch_.rows.positions = dry.view(DType::i32, {tokens});
        batch_.query_start_loc = dry.view(DType::i32, {tokens + 1});
        batch_.seq_lens = dry.view(DType::i32, {tokens});
        batch_.groups = tables_;
        batch_.kv = kv_;
    }
    BatchWithoutMemory(const BatchWithoutMemory&) = delete;
    BatchWithoutMemory& operator=(const BatchWithoutMemory&) = delete;

    const ForwardContext& batch() const { return batch_; }

  private:
    void add(const CacheLayout& group, int64_t tokens) {
        const DType dtype = dry_.context().activations;
        const TensorView values = dry_.view(dtype, {1, group.kv_heads, kBlockSize, group.head_dim});
        const TensorView keys =
            ops::keys_lie_as_values(dry_.context().device)
                ? values
                : dry_.view(dtype, {1, group.kv_heads, group.head_dim, kBlockSize});
        for (const int32_t layer : group.layers) {
            KvLayer& storage = kv_.at(static_cast<size_t>(layer));
            storage.keys = keys;
            storage.values = values;
            storage.group = static_cast<int32_t>(tables_.size());
        }
        tables_.push_back({dry_.view(DType::i32, {tokens, 1}), dry_.view(DType::i64, {tokens})});
    }

    const DryRun& dry_;
    std::vector<KvLayer> kv_;
    std::vector<GroupTables> tables_;
    ForwardContext batch_;
};

void run(Model& model, const DryRun& dry, int64_t tokens, int64_t rows, const RowsUse& use) {
    const Context& context = dry.context();
    const BatchWithoutMemory made(model, dry, tokens);
    const ScratchArena::Scope scope(*context.scratch);
    const TensorView hidden = run_blocks(model, made.batch());
    {
        const ScratchArena::Scope inner(*context.scratch);
        const ConstTensorView last = model.last_hidden(made.batch(), hidden.rows(0, rows));
        if (use.hidden) use.hidden(context, last);
        if (!model.config().labels.empty()) {
            const TensorView values = model.classify(made.batch(), last);
            if (use.hidden) use.hidden(context, values);
        }
    }
    if (!model.config().generates) return;
    const TensorView logits = run_head(model, made.batch(), hidden, dry.view(DType::i32, {rows}));
    if (use.logits) use.logits(context, logits);
}

}  // namespace

// Kernels for few rows may take more for each, so that smaller steps are asked as well.
size_t step_scratch_bytes(Model& model, const LargestStep& step, const RowsUse& use) {
    const DryRun dry(step.device, step.activations, step.num_threads);
    for (int64_t tokens = step.tokens; tokens > 0; tokens /= 2) {
        run(model, dry, tokens, std::min(step.rows, tokens), use);
    }
    return dry.scratch_bytes();
}

}  // namespace nvllm
