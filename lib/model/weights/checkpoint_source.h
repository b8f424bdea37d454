// Weights of a checkpoint, as they lie in its mapped files.
#pragma once

#include <set>

#include "lib/checkpoint/checkpoint.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// What is looked at: for a plan, headers do.
enum class CheckpointUse : uint8_t { headers, values };

class CheckpointSource : public WeightSource {
  public:
    CheckpointSource(Checkpoint checkpoint, DType product_type, ThreadPool& threads,
                     CheckpointUse use = CheckpointUse::values)
        : WeightSource(product_type, threads), checkpoint_(std::move(checkpoint)), use_(use) {}

    bool has(const std::string& name) const override;
    Tensor read(const std::string& name, std::initializer_list<int64_t> shape,
                WeightRole role) override;
    std::vector<std::string> unread() const override;
    bool has_values() const override { return use_ == CheckpointUse::values; }

    const Checkpoint& checkpoint() const { return checkpoint_; }

  private:
    Checkpoint checkpoint_;
    CheckpointUse use_;
    std::set<std::string, std::less<>> read_names_;
};

}  // namespace nvllm
