// A batch of views without memory, for passes that only tell how much scratch they take.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/host/dry_run.h"
#include "lib/model/model.h"

namespace nvllm {

// Sequences of one token each, of which there cannot be more.
class DryBatch {
  public:
    // `dry` outlives it, and `context`, which is that of the dry run.
    DryBatch(std::span<const CacheLayout> groups, const DryRun& dry, const Context& context,
             int64_t tokens);
    DryBatch(std::span<const CacheLayout> groups, const DryRun& dry, int64_t tokens)
        : DryBatch(groups, dry, dry.context(), tokens) {}
    DryBatch(const DryBatch&) = delete;
    DryBatch& operator=(const DryBatch&) = delete;

    const ForwardContext& batch() const { return batch_; }

  private:
    void add(const CacheLayout& group, int64_t tokens);
    void add_states(const CacheLayout& group, int64_t tokens);

    const DryRun& dry_;
    std::vector<KvLayer> kv_;
    std::vector<GroupTables> tables_;
    ForwardContext batch_;
};

}  // namespace nvllm
