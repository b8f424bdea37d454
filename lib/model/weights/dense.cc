// Dense linears. Weights are used as they lie in the file wherever their type allows it.
#include "lib/model/weights/dense.h"

#include <algorithm>
#include <utility>

namespace nvllm {
namespace {

struct DenseMatrix {
    Tensor weight;  // [out, in]
    Tensor bias;    // [out], or empty
};

// Matrices of one type over one x, each where it lies.
class DensePart : public LinearPart {
  public:
    // REQUIRES: at least one.
    DensePart(std::vector<DenseMatrix> matrices, DType compute_type)
        : matrices_(std::move(matrices)), compute_type_(compute_type) {
        for (const DenseMatrix& matrix : matrices_) {
            views_.push_back({matrix.weight.view(), matrix.bias.view()});
            out_ += matrix.weight.view().dim(0);
            bytes_ += matrix.weight.bytes() + matrix.bias.bytes();
        }
    }

    int64_t in() const override { return views_.front().weight.dim(1); }
    int64_t out() const override { return out_; }
    size_t bytes() const override { return bytes_; }

    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
               const TensorView& y) const override {
        ops::fused_matmul(context, x, views_, compute_type_, output, y);
    }

  private:
    std::vector<DenseMatrix> matrices_;
    std::vector<ops::MatmulWeight> views_;  // of the matrices
    DType compute_type_;
    int64_t out_ = 0;
    size_t bytes_ = 0;
};

// Where ranks' results are summed, one of them adds the bias.
bool has_own_bias(const LinearSpec& linear) {
    return linear.bias && (linear.axis != ShardAxis::input || linear.shard.rank == 0);
}

TensorSlice bias_slice(const LinearSpec& linear) {
    return linear.axis == ShardAxis::output ? linear.slice() : TensorSlice();
}

Tensor read_matrix(WeightSource& source, const LinearSpec& linear) {
    const std::string name = linear.name + ".weight";
    if (linear.order == MatrixOrder::out_in) {
        return source.read_placed_matrix(name, {linear.out, linear.in}, linear.slice());
    }
    const Tensor stored = source.read_slice(name, {linear.in, linear.out}, WeightRole::matrix,
                                            linear.slice(MatrixOrder::in_out));
    return source.placed(transposed(source, as_product_matrix(source, stored)));
}

// A device launches each matmul by itself, so there linears become one matrix.
bool are_stacked(const WeightSource& source, std::span<const LinearSpec> linears) {
    return !source.device().is_cpu() && linears.size() > 1 &&
           std::all_of(linears.begin(), linears.end(), [&](const LinearSpec& linear) {
               return linear.order == MatrixOrder::out_in &&
                      has_own_bias(linear) == has_own_bias(linears.front());
           });
}

DenseMatrix read_stacked(WeightSource& source, std::span<const LinearSpec> linears) {
    const int64_t in = linears.front().in;
    int64_t out = 0;
    for (const LinearSpec& linear : linears) out += linear.out;
    DenseMatrix all{source.allocate_placed({out, in}), {}};
    if (has_own_bias(linears.front())) all.bias = source.allocate_placed({out});
    int64_t row = 0;
    for (const LinearSpec& linear : linears) {
        const auto rows_of = [&](Tensor& tensor) {  // without values there is nothing to fill
            return source.has_values() ? tensor.mutable_view().rows(row, linear.out) : TensorView();
        };
        source.read_matrix_into(linear.name + ".weight", {linear.out, in}, linear.slice(),
                                rows_of(all.weight));
        if (has_own_bias(linear)) {
            source.read_matrix_into(linear.name + ".bias", {linear.out}, bias_slice(linear),
                                    rows_of(all.bias));
        }
        row += linear.out;
    }
    return all;
}

}  // namespace

// On a device a bias has the type of the product it is added to.
Tensor read_bias(WeightSource& source, const LinearSpec& linear) {
    if (!has_own_bias(linear)) return {};
    const Tensor stored = source.read_slice(linear.name + ".bias", {linear.out}, WeightRole::bias,
                                            bias_slice(linear));
    return source.device().is_cpu() ? stored : source.placed(as_product_matrix(source, stored));
}

std::vector<std::unique_ptr<LinearPart>> load_dense(WeightSource& source,
                                                    std::span<const LinearSpec> linears) {
    std::vector<DenseMatrix> matrices;
    if (are_stacked(source, linears)) {
        matrices.push_back(read_stacked(source, linears));
    } else {
        for (const LinearSpec& linear : linears) {
            matrices.push_back({read_matrix(source, linear), read_bias(source, linear)});
        }
    }
    const DType type = matrices.front().weight.view().dtype;
    const bool have_one_type =
        std::all_of(matrices.begin(), matrices.end(),
                    [&](const DenseMatrix& matrix) { return matrix.weight.view().dtype == type; });
    std::vector<std::unique_ptr<LinearPart>> parts;
    if (have_one_type) {
        parts.push_back(std::make_unique<DensePart>(std::move(matrices), source.compute_type()));
        return parts;
    }
    for (DenseMatrix& matrix : matrices) {
        parts.push_back(make_dense_part(std::move(matrix.weight), std::move(matrix.bias),
                                        source.compute_type()));
    }
    return parts;
}

std::unique_ptr<LinearPart> make_dense_part(Tensor weight, Tensor bias, DType compute_type) {
    std::vector<DenseMatrix> matrices;
    matrices.push_back({std::move(weight), std::move(bias)});
    return std::make_unique<DensePart>(std::move(matrices), compute_type);
}

}  // namespace nvllm
