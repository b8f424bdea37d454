// Random weights of the right shapes, for speed measurements without a checkpoint.
#pragma once

#include "lib/model/weights/weight_source.h"

namespace nvllm {

// Matrices and biases are normal with deviation 0.02, norm weights are 1. A value depends on the
// seed, the tensor's name and its index in the tensor alone: not on the order of reading nor on the
// number of threads or the device: devices that can fill memory themselves make their matrices.
class DummySource : public WeightSource {
  public:
    DummySource(uint64_t seed, DType compute_type, ThreadPool& threads,
                const ComputeDevice& device = {});

    // Every tensor is there, but for optional ones that a family asks about.
    bool has(const std::string&) const override { return false; }
    // A slice is cut out of the whole, which is made first.
    Tensor read_slice(const std::string& name, std::initializer_list<int64_t> shape,
                      WeightRole role, const TensorSlice& slice) override;
    Tensor read_placed_matrix(const std::string& name, std::initializer_list<int64_t> shape,
                              const TensorSlice& slice) override;
    void read_matrix_into(const std::string& name, std::initializer_list<int64_t> shape,
                          const TensorSlice& slice, const TensorView& to) override;
    std::vector<std::string> unread() const override { return {}; }

  private:
    Tensor make(const std::string& name, const ViewLayout& layout, WeightRole role) const;
    bool fills_on_device() const;
    void fill(const ComputeDevice& where, const std::string& name, const Tensor& quantiles,
              const TensorView& out) const;

    uint64_t seed_;
    Tensor quantiles_;         // compute type [kQuantiles]
    Tensor placed_quantiles_;  // on the device, once something is filled there
};

}  // namespace nvllm
