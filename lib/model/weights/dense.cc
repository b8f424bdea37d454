// Dense linears. Weights are used as they lie in the file wherever their type allows it.
#include "lib/model/weights/dense.h"

#include <utility>

namespace nvllm {
namespace {

class DensePart : public LinearPart {
  public:
    DensePart(Tensor weight, Tensor bias, DType product_type)
        : weight_(std::move(weight)), bias_(std::move(bias)), product_type_(product_type) {}

    int64_t in() const override { return weight_.view().dim(1); }
    int64_t out() const override { return weight_.view().dim(0); }
    size_t bytes() const override { return weight_.bytes() + bias_.bytes(); }

    size_t scratch_bytes(int64_t tokens, const ScratchTerms& terms) const override {
        return ops::matmul_scratch_bytes(tokens, in(), product_type_, weight_.view().dtype, terms);
    }

    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
               const TensorView& y) const override {
        ops::matmul(context, x, weight_.view(), bias_.view(), product_type_, output, y);
    }

  private:
    Tensor weight_;  // [out, in]
    Tensor bias_;    // [out], or empty
    DType product_type_;
};

Tensor read_matrix(WeightSource& source, const LinearName& linear) {
    const std::string name = linear.name + ".weight";
    if (linear.order == MatrixOrder::out_in) {
        return source.read_placed_matrix(name, {linear.out, linear.in});
    }
    const Tensor stored = source.read(name, {linear.in, linear.out}, WeightRole::matrix);
    return source.placed(transposed(source, as_product_matrix(source, stored)));
}

}  // namespace

// On a device a bias has the type of the product it is added to.
Tensor read_bias(WeightSource& source, const LinearName& linear) {
    if (!linear.bias) return {};
    const Tensor stored = source.read(linear.name + ".bias", {linear.out}, WeightRole::bias);
    return source.device().is_cpu() ? stored : source.placed(as_product_matrix(source, stored));
}

std::unique_ptr<LinearPart> load_dense(WeightSource& source, const LinearName& linear) {
    return make_dense_part(read_matrix(source, linear), read_bias(source, linear),
                           source.product_type());
}

std::unique_ptr<LinearPart> make_dense_part(Tensor weight, Tensor bias, DType product_type) {
    return std::make_unique<DensePart>(std::move(weight), std::move(bias), product_type);
}

}  // namespace nvllm
