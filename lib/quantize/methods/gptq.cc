// GPTQ (Frantar et al. 2022): each column is rounded, and the columns behind it make up for that.
#include <algorithm>
#include <numeric>

#include "lib/quantize/methods/matrix_quantizer.h"
#include "lib/quantize/methods/obs_column_update.h"

namespace nvllm::quantize {
namespace {

class RoundingRule final : public ColumnRule {
  public:
    // `order` as InverseFactor has it. `chooses`: scales of a group are chosen from what its values
    // have become when its first column is decided.
    RoundingRule(MatrixQuantizer& quantizer, std::span<const int32_t> order, bool chooses,
                 bool keeps_zeros, int64_t in)
        : quantizer_(quantizer),
          order_(order),
          chooses_(chooses),
          keeps_zeros_(keeps_zeros),
          in_(in) {}

    // Zeros are those before any column moved them.
    void remember_zeros(const ConstTensorView& weight) {
        if (!keeps_zeros_) return;
        zeros_.resize(static_cast<size_t>(weight.numel()));
        for (size_t i = 0; i < zeros_.size(); ++i) zeros_[i] = weight.as<float>()[i] == 0.0f;
    }

    float keep(int64_t row_index, int64_t position, const float* row) override {
        const int64_t width = quantizer_.group_columns();
        if (chooses_ && position % width == 0) {
            ValueRange range;
            for (int64_t k = position; k < std::min(position + width, in_); ++k) {
                range.add(row[k]);
            }
            quantizer_.choose(row_index, position / width, range.minimum, range.maximum);
        }
        const int64_t column =
            order_.empty() ? position : int64_t{order_[static_cast<size_t>(position)]};
        const bool is_zero =
            keeps_zeros_ && zeros_[static_cast<size_t>(row_index * in_ + position)] != 0;
        return quantizer_.quantize(row_index, column, is_zero ? 0.0f : row[position]);
    }

  private:
    MatrixQuantizer& quantizer_;
    std::span<const int32_t> order_;
    bool chooses_;
    bool keeps_zeros_;
    int64_t in_;
    std::vector<uint8_t> zeros_;
};

// The group of each column when groups are made in the order of decisions.
std::vector<int32_t> groups_in_order(std::span<const int32_t> order, int64_t width) {
    std::vector<int32_t> groups(order.size());
    for (size_t position = 0; position < order.size(); ++position) {
        groups[static_cast<size_t>(order[position])] =
            static_cast<int32_t>(static_cast<int64_t>(position) / width);
    }
    return groups;
}

bool has_groups(const QuantizationArguments& arguments) {
    return arguments.strategy == QuantizationStrategy::group ||
           arguments.strategy == QuantizationStrategy::tensor_group;
}

}  // namespace

LinearSolution solve_gptq(const LinearProblem& problem) {
    const QuantizationArguments& arguments = *problem.arguments;
    const TensorView& weight = problem.weight;
    const bool descending = arguments.actorder != ActivationOrder::none;
    const InverseFactor factor = factor_moments(problem, descending);
    MatrixQuantizer quantizer(arguments, weight.dim(0), weight.dim(1), problem.scale_type,
                              std::max(problem.largest, largest_magnitude(weight)));
    const bool chooses = has_groups(arguments) && arguments.actorder != ActivationOrder::weight;
    if (!chooses) quantizer.choose_all(weight);
    if (chooses && descending) {
        quantizer.set_group_index(groups_in_order(factor.order, quantizer.group_columns()));
    }
    if (descending) permute_columns(problem.context, weight, factor.order);
    RoundingRule rule(quantizer, factor.order, chooses, problem.keeps_zeros, weight.dim(1));
    rule.remember_zeros(weight);
    // A group's values are up to date only within one block.
    const int64_t width = chooses ? quantizer.group_columns() : 1;
    const int64_t block = (problem.options.block_size + width - 1) / width * width;
    fit_columns(problem.context, weight, factor.upper.view(), block, rule);
    if (descending) unpermute_columns(problem.context, weight, factor.order);
    LinearSolution solution;
    solution.dampening = factor.dampening;
    solution.matrix = quantizer.take();
    return solution;
}

}  // namespace nvllm::quantize
