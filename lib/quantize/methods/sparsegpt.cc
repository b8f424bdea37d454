// SparseGPT (Frantar & Alistarh 2023): the least important weights become zeros and those behind
// them make up for it; and its baseline, which goes by magnitude alone. Both may round what is
// left.
#include <algorithm>
#include <cmath>
#include <optional>

#include "lib/quantize/methods/matrix_quantizer.h"
#include "lib/quantize/methods/obs_column_update.h"

namespace nvllm::quantize {
namespace {

// Marks the `zeros` least of `scores` in `mask`; of equals the first.
void mark_least(std::span<const float> scores, int64_t zeros, uint8_t* mask) {
    std::vector<int64_t> order(scores.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return scores[static_cast<size_t>(a)] < scores[static_cast<size_t>(b)];
    });
    for (int64_t i = 0; i < zeros; ++i) mask[order[static_cast<size_t>(i)]] = 1;
}

class PruningRule final : public ColumnRule {
  public:
    PruningRule(const LinearProblem& problem, const ConstTensorView& upper,
                MatrixQuantizer* quantizer)
        : options_(problem.options),
          upper_(upper),
          quantizer_(quantizer),
          out_(problem.weight.dim(0)),
          in_(problem.weight.dim(1)),
          mask_(static_cast<size_t>(out_ * in_)) {}

    // Without a structure, a block's zeros are the least important of all its rows.
    void begin_block(int64_t first, int64_t count, const ConstTensorView& weights) override {
        if (options_.mask.of > 0) return;
        std::vector<float> scores(static_cast<size_t>(out_ * count));
        for (int64_t row = 0; row < out_; ++row) {
            for (int64_t k = 0; k < count; ++k) {
                scores[static_cast<size_t>(row * count + k)] =
                    score(weights.as<float>() + row * in_, first + k);
            }
        }
        const auto zeros = static_cast<size_t>(
            std::llround(options_.sparsity * static_cast<double>(scores.size())));
        if (zeros == 0) return;
        std::vector<float> sorted = scores;
        std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(zeros) - 1,
                         sorted.end());
        const float threshold = sorted[zeros - 1];
        for (int64_t row = 0; row < out_; ++row) {
            for (int64_t k = 0; k < count; ++k) {
                mask_[static_cast<size_t>(row * in_ + first + k)] =
                    scores[static_cast<size_t>(row * count + k)] <= threshold;
            }
        }
    }

    float keep(int64_t row_index, int64_t position, const float* row) override {
        const MaskStructure& structure = options_.mask;
        uint8_t* const mask = mask_.data() + row_index * in_;
        if (structure.of > 0 && position % structure.of == 0) {
            std::vector<float> scores;
            for (int64_t k = position; k < std::min(position + structure.of, in_); ++k) {
                scores.push_back(score(row, k));
            }
            mark_least(scores, std::min(structure.zeros, static_cast<int64_t>(scores.size())),
                       mask + position);
        }
        const float kept = mask[position] != 0 ? 0.0f : row[position];
        return quantizer_ != nullptr ? quantizer_->quantize(row_index, position, kept) : kept;
    }

  private:
    // What the output loses with this weight, all others making up for it.
    float score(const float* row, int64_t position) const {
        const float ratio = row[position] / upper_.as<float>()[position * (in_ + 1)];
        return ratio * ratio;
    }

    SolverOptions options_;
    ConstTensorView upper_;
    MatrixQuantizer* quantizer_;
    int64_t out_;
    int64_t in_;
    std::vector<uint8_t> mask_;  // [out, in]: 1 becomes zero
};

std::optional<MatrixQuantizer> quantizer_of(const LinearProblem& problem) {
    if (problem.arguments == nullptr) return std::nullopt;
    std::optional<MatrixQuantizer> quantizer;
    quantizer.emplace(*problem.arguments, problem.weight.dim(0), problem.weight.dim(1),
                      problem.scale_type,
                      std::max(problem.largest, largest_magnitude(problem.weight)));
    quantizer->choose_all(problem.weight);
    return quantizer;
}

void prune_rows_by_magnitude(const TensorView& weight, const MaskStructure& structure) {
    const int64_t in = weight.dim(1);
    for (int64_t row = 0; row < weight.dim(0); ++row) {
        for (int64_t first = 0; first < in; first += structure.of) {
            const int64_t count = std::min(structure.of, in - first);
            float* const values = weight.as<float>() + row * in + first;
            std::vector<float> scores;
            for (int64_t k = 0; k < count; ++k) scores.push_back(std::abs(values[k]));
            std::vector<uint8_t> mask(scores.size());
            mark_least(scores, std::min(structure.zeros, count), mask.data());
            for (int64_t k = 0; k < count; ++k) {
                if (mask[static_cast<size_t>(k)] != 0) values[k] = 0.0f;
            }
        }
    }
}

void prune_by_magnitude(const TensorView& weight, double sparsity) {
    const auto count = static_cast<size_t>(weight.numel());
    const auto zeros = static_cast<size_t>(std::llround(sparsity * static_cast<double>(count)));
    if (zeros == 0) return;
    float* const values = weight.as<float>();
    std::vector<float> sorted;
    for (size_t i = 0; i < count; ++i) sorted.push_back(std::abs(values[i]));
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(zeros) - 1,
                     sorted.end());
    const float threshold = sorted[zeros - 1];
    for (size_t i = 0; i < count; ++i) {
        if (std::abs(values[i]) <= threshold) values[i] = 0.0f;
    }
}

}  // namespace

LinearSolution solve_sparsegpt(const LinearProblem& problem) {
    const InverseFactor factor = factor_moments(problem, false);
    std::optional<MatrixQuantizer> quantizer = quantizer_of(problem);
    PruningRule rule(problem, factor.upper.view(), quantizer ? &*quantizer : nullptr);
    const int64_t of = std::max<int64_t>(1, problem.options.mask.of);
    const int64_t block = (problem.options.block_size + of - 1) / of * of;
    fit_columns(problem.context, problem.weight, factor.upper.view(), block, rule);
    LinearSolution solution;
    solution.dampening = factor.dampening;
    if (quantizer) solution.matrix = quantizer->take();
    return solution;
}

LinearSolution solve_magnitude(const LinearProblem& problem) {
    if (problem.options.mask.of > 0) {
        prune_rows_by_magnitude(problem.weight, problem.options.mask);
    } else {
        prune_by_magnitude(problem.weight, problem.options.sparsity);
    }
    return problem.arguments != nullptr ? solve_round_to_nearest(problem) : LinearSolution{};
}

}  // namespace nvllm::quantize
