// Random weights of the right shapes, for speed measurements without a checkpoint.
#pragma once

#include "lib/model/weights/weight_source.h"

namespace nvllm {

// Matrices and biases are normal with deviation 0.02, norm weights are 1. A value depends on the
// seed, the tensor's name and its place in the tensor alone: not on the order of reading nor on the
// number of threads.
class DummySource : public WeightSource {
  public:
    DummySource(uint64_t seed, DType product_type, ThreadPool& threads,
                const ComputeDevice& device = {});

    // Every tensor is there, but for optional ones that a family asks about.
    bool has(const std::string&) const override { return false; }
    Tensor read(const std::string& name, std::initializer_list<int64_t> shape,
                WeightRole role) override;
    std::vector<std::string> unread() const override { return {}; }

  private:
    uint64_t seed_;
    Tensor quantiles_;  // product type [kQuantiles]
};

}  // namespace nvllm
