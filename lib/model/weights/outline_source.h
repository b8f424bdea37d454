// Weights without values: shapes and types only, for plans made before a weight is read.
#pragma once

#include "lib/model/weights/weight_source.h"

namespace nvllm {

// Every tensor has the type and size it would have after loading, and an address that must not be
// read.
class OutlineSource : public WeightSource {
  public:
    OutlineSource(DType stored_type, DType product_type, ThreadPool& threads)
        : WeightSource(product_type, threads), stored_type_(stored_type) {}

    bool has(const std::string&) const override { return false; }
    Tensor read(const std::string& name, std::initializer_list<int64_t> shape,
                WeightRole role) override;
    std::vector<std::string> unread() const override { return {}; }
    bool has_values() const override { return false; }

  private:
    DType stored_type_;
};

// A tensor of this layout that holds nothing.
Tensor outline_tensor(DType dtype, std::initializer_list<int64_t> shape);

}  // namespace nvllm
