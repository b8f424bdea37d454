// A linear that is read when it is first multiplied with and given back when its block is done, so
// that a model takes the memory of one block however its weights are stored.
#pragma once

#include <functional>
#include <optional>

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
    // Of a dense one: what is stored is not known yet.
    size_t scratch_bytes(int64_t tokens, const ScratchTerms& terms) const override {
        return ops::matmul_scratch_bytes(tokens, name_.in, compute_type_, compute_type_, terms);
    }
    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
               const TensorView& y) const override {
        if (!loaded_) loaded_ = load_();
        loaded_->apply(context, x, output, y);
    }
    void release() { loaded_.reset(); }
    const LinearSpec& name() const { return name_; }

  private:
    LinearSpec name_;
    DType compute_type_;
    std::function<LinearWeight()> load_;
    mutable std::optional<LinearWeight> loaded_;
};

}  // namespace nvllm::quantize
