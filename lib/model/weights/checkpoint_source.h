// Weights of a checkpoint, as they lie in its mapped files.
#pragma once

#include <set>

#include "lib/checkpoint/checkpoint.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

class CheckpointSource : public WeightSource {
  public:
    CheckpointSource(Checkpoint checkpoint, DType product_type, ThreadPool& threads)
        : WeightSource(product_type, threads), checkpoint_(std::move(checkpoint)) {}

    bool has(const std::string& name) const override;
    Tensor read(const std::string& name, std::initializer_list<int64_t> shape,
                WeightRole role) override;
    std::vector<std::string> unread() const override;

    const Checkpoint& checkpoint() const { return checkpoint_; }

  private:
    Checkpoint checkpoint_;
    std::set<std::string, std::less<>> read_names_;
};

}  // namespace nvllm
