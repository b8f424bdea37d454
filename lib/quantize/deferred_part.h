// A linear that is read when it is first multiplied with and given back when its block is done, so
// that a model takes the memory of one block however its weights are stored.
#pragma once

#include <functional>
#include <optional>

#include "lib/model/weights/meta_weight_source.h"
#include "lib/model/weights/scheme.h"

namespace nvllm::quantize {

// Used by one thread at a time.
class DeferredPart final : public LinearPart {
  public:
    // `load`: makes the linear of this name, for products in `compute_type`; may throw bad_data.
    DeferredPart(LinearSpec name, DType compute_type, std::function<LinearWeight()> load)
        : name_(std::move(name)), compute_type_(compute_type), load_(std::move(load)) {}

    int64_t in() const override { return name_.in; }
    int64_t out() const override { return name_.out; }
    size_t bytes() const override { return loaded_ ? loaded_->bytes() : 0; }
    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
               const TensorView& y) const override {
        if (context.is_dry_run()) return apply_as_dense(context, x, output, y);
        if (!loaded_) loaded_ = load_();
        loaded_->apply(context, x, output, y);
    }
    void release() { loaded_.reset(); }
    const LinearSpec& name() const { return name_; }

  private:
    // For a dry run: what is stored is not known yet.
    void apply_as_dense(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
                        const TensorView& y) const {
        const Tensor weight = meta_tensor(compute_type_, {name_.out, name_.in});
        ops::matmul(context, x, weight.view(), {}, compute_type_, output, y);
    }

    LinearSpec name_;
    DType compute_type_;
    std::function<LinearWeight()> load_;
    mutable std::optional<LinearWeight> loaded_;
};

}  // namespace nvllm::quantize
