// Weights without values: shapes and types only, for plans made before a weight is read.
#pragma once

#include <string>
#include <vector>

#include "lib/model/weights/weight_source.h"

namespace nvllm {

// A tensor that a model asked for.
struct MetaTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;
};

// Every tensor is there, in one type, with an address that must not be read: what a config.json
// alone says.
class MetaWeightSource : public WeightSource {
  public:
    MetaWeightSource(DType stored_type, DType compute_type, ThreadPool& threads,
                     const ComputeDevice& device = {})
        : WeightSource(compute_type, threads, device), stored_type_(stored_type) {}

    bool has(const std::string&) const override { return false; }
    Tensor read_slice(const std::string& name, std::initializer_list<int64_t> shape,
                      WeightRole role, const TensorSlice& slice) override;
    std::vector<std::string> unread() const override { return {}; }
    bool has_values() const override { return false; }

    // What was read, in order.
    const std::vector<MetaTensor>& tensors() const { return tensors_; }

  private:
    DType stored_type_;
    std::vector<MetaTensor> tensors_;
};

// A tensor of this layout that holds nothing.
Tensor meta_tensor(DType dtype, std::initializer_list<int64_t> shape, Device device = {});

}  // namespace nvllm
