// One block: scale channels, then prune and quantize matrix after matrix.
#include "lib/quantize/block_solution.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/error.h"
#include "kernels/host/thread_pool.h"
#include "lib/model/weights/sparse_bitmask.h"
#include "lib/quantize/methods/cache_scales.h"
#include "lib/quantize/methods/channel_scales.h"
#include "lib/quantize/methods/matrix_quantizer.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kScaledRowGrain = 8;

Tensor copy_of(const ConstTensorView& matrix) {
    Tensor copy = Tensor::allocate(DType::f32, {matrix.dim(0), matrix.dim(1)});
    std::memcpy(copy.mutable_view().data, matrix.data,
                static_cast<size_t>(matrix.numel()) * sizeof(float));
    return copy;
}

// weight[row, column] *= column_factors[column] / row_divisors[row], or the inverse of that.
void scale_matrix(ThreadPool& threads, const TensorView& weight, const SolvedLinear& solved,
                  bool undo) {
    const bool has_columns = !solved.column_factors.empty();
    const bool has_rows = !solved.row_divisors.empty();
    if (!has_columns && !has_rows) return;
    const int64_t in = weight.dim(1);
    const auto scale_rows = [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            float* const values = weight.as<float>() + row * in;
            const float divisor = has_rows ? solved.row_divisors[static_cast<size_t>(row)] : 1.0f;
            for (int64_t column = 0; column < in; ++column) {
                const float factor =
                    has_columns ? solved.column_factors[static_cast<size_t>(column)] : 1.0f;
                values[column] =
                    undo ? values[column] / factor * divisor : values[column] * factor / divisor;
            }
        }
    };
    threads.parallel_for(weight.dim(0), kScaledRowGrain, scale_rows);
}

// A linear that reads the stream has its rows turned, one that writes it its columns.
void turn(ThreadPool& threads, const ModelPlan& plan, ResidualSide side, const TensorView& weight,
          bool back) {
    if (side == ResidualSide::reads) plan.rotation()->rotation().turn_rows(threads, weight, back);
    if (side == ResidualSide::writes) {
        plan.rotation()->rotation().turn_columns(threads, weight, back);
    }
}

// Second moments of x / factors.
Tensor scaled_gram(const SiteStatistics& statistics, const std::vector<float>& factors) {
    if (factors.empty() || statistics.gram.empty()) return statistics.gram;
    Tensor scaled = copy_of(statistics.gram.view());
    const int64_t size = scaled.view().dim(0);
    float* const values = scaled.mutable_view().as<float>();
    for (int64_t row = 0; row < size; ++row) {
        for (int64_t column = 0; column < size; ++column) {
            values[row * size + column] /=
                factors[static_cast<size_t>(row)] * factors[static_cast<size_t>(column)];
        }
    }
    return scaled;
}

double share_of_zeros(const ConstTensorView& weight) {
    const float* const values = weight.as<float>();
    return static_cast<double>(std::count(values, values + weight.numel(), 0.0f)) /
           static_cast<double>(weight.numel());
}

// Codes, scales and zero points, of one value.
double bits_per_weight(const SolvedLinear& solved, const LinearPlan& plan, DType type) {
    // Half of the values, and a bit for each place.
    const auto stored = [&](double bits) { return plan.is_sparse ? bits / 2.0 + 1.0 : bits; };
    if (!solved.matrix) return stored(8.0 * static_cast<double>(dtype_bytes(type)));
    const QuantizedMatrix& matrix = *solved.matrix;
    const QuantizationArguments& arguments = matrix.arguments;
    const bool has_byte_scales = arguments.scales_are_powers_of_two ||
                                 arguments.strategy == QuantizationStrategy::tensor_group;
    const size_t scale_bits = has_byte_scales ? 8 : 8 * dtype_bytes(type);
    // AWQ and GPTQ store zero points where they say nothing, GPTQ the group of each column too.
    const std::string_view method = method_of(plan.format);
    const bool has_zeros = !matrix.zero_points.empty() || method != "compressed-tensors";
    const bool has_order = !matrix.group_index.empty() || method == "gptq";
    const auto zero_bits = static_cast<size_t>(has_zeros ? arguments.bits : 0);
    const auto num_scales = static_cast<size_t>(matrix.scales.view().numel());
    const size_t order_bits =
        has_order ? 8 * sizeof(int32_t) * static_cast<size_t>(matrix.in()) : 0;
    return stored(arguments.bits) +
           static_cast<double>(num_scales * (scale_bits + zero_bits) + order_bits) /
               static_cast<double>(matrix.out() * matrix.in());
}

double relative_square(const ConstTensorView& original, const ConstTensorView& kept) {
    double error = 0.0, whole = 0.0;
    for (int64_t i = 0; i < original.numel(); ++i) {
        const double value = original.as<float>()[i];
        const double difference = value - kept.as<float>()[i];
        error += difference * difference;
        whole += value * value;
    }
    return whole > 0.0 ? error / whole : 0.0;
}

// Scales of activations that the file has to hold, from the inputs that there were.
void set_input_scales(const QuantizationScheme& scheme, const SiteStatistics* statistics,
                      const std::vector<float>& factors, QuantizedMatrix& matrix) {
    if (!scheme.input_activations || statistics == nullptr || statistics->ranges.empty()) return;
    const QuantizationArguments& arguments = *scheme.input_activations;
    const float largest =
        statistics->ranges.range(arguments.range_share, factors).largest_magnitude();
    if (arguments.dynamic == DynamicScales::no) {
        matrix.input_scale = choose_scale(arguments, -largest, largest).scale;
    } else if (arguments.dynamic == DynamicScales::local) {
        matrix.input_global_scale = choose_global_scale(largest);
    }
}

std::string method_name(const LinearPlan& plan, bool is_scaled, const ModelPlan& model_plan) {
    std::string name;
    const auto add = [&](const char* part) {
        name += (name.empty() ? "" : "+") + std::string(part);
    };
    for (const Modifier& modifier : model_plan.recipe().modifiers) {
        const bool prepares = find_method(modifier.method).scales || modifier.method == "rotation";
        if (is_scaled && prepares) add(modifier.method.c_str());
    }
    if (plan.pruner != nullptr) add(plan.pruner->name);
    if (plan.quantizer != nullptr) add(plan.quantizer->name);
    return name;
}

class BlockSolver {
  public:
    BlockSolver(const BlockTask& task, const std::vector<size_t>& linears)
        : task_(task), scaling_(scale_channels(task, linears)) {
        find_largest(linears);
    }

    SolvedBlock solve(const std::vector<size_t>& linears) {
        SolvedBlock block;
        for (const size_t linear : linears) {
            const bool is_scaled = scaling_.columns.contains(linear) ||
                                   scaling_.rows.contains(linear) ||
                                   task_.plan.rotation() != nullptr;
            const bool is_dequantized = task_.model.is_stored_otherwise(linear);
            if (!task_.plan.linear(linear).is_rewritten() && !is_scaled && !is_dequantized)
                continue;
            block.linears.push_back(solve_linear(linear, is_scaled));
            add_scaled_bias(block.linears.back(), block);
            if (task_.done) task_.done(block.linears.back().record);
        }
        block.others.insert(block.others.end(), scaling_.norms.begin(), scaling_.norms.end());
        return block;
    }

  private:
    // Matrices over one input that an engine may fuse share one global scale.
    void find_largest(const std::vector<size_t>& linears) {
        for (const size_t linear : linears) {
            const QuantizationScheme* const scheme = task_.plan.linear(linear).scheme;
            if (scheme == nullptr ||
                scheme->weights->strategy != QuantizationStrategy::tensor_group) {
                continue;
            }
            SolvedLinear factors = factors_of(linear);
            const Tensor weight = task_.model.weight(linear);
            scale_matrix(task_.model.threads(), weight.mutable_view(), factors, false);
            turn(task_.model.threads(), task_.plan, factors.turned, weight.mutable_view(), false);
            float& largest = largest_[task_.model.linears()[linear].site];
            largest = std::max(largest, largest_magnitude(weight.view()));
        }
    }

    SolvedLinear factors_of(size_t linear) const {
        SolvedLinear solved;
        solved.linear = linear;
        if (const auto found = scaling_.columns.find(linear); found != scaling_.columns.end()) {
            solved.column_factors = found->second;
        }
        if (const auto found = scaling_.rows.find(linear); found != scaling_.rows.end()) {
            solved.row_divisors = found->second;
        }
        const ModelRotation* const rotation = task_.plan.rotation();
        if (rotation == nullptr) return solved;
        const std::string& name = task_.model.linears()[linear].name.name;
        solved.turned = ModelRotation::side_of(name);
        if (solved.turned == ResidualSide::reads) {
            solved.column_factors = rotation->norm_before(task_.model, name);
        }
        return solved;
    }

    SolvedLinear solve_linear(size_t linear, bool is_scaled) {
        const LinearPlan& plan = task_.plan.linear(linear);
        const ObservedLinear& observed = task_.model.linears()[linear];
        const SiteStatistics* const statistics = task_.statistics.of(observed.site);
        SolvedLinear solved = factors_of(linear);
        const Tensor weight = task_.model.weight(linear);
        const TensorView values = weight.mutable_view();
        scale_matrix(task_.model.threads(), values, solved, false);
        turn(task_.model.threads(), task_.plan, solved.turned, values, false);
        clip(linear, values);
        run_solvers(plan, observed, statistics, values, solved);
        if (!solved.matrix) {
            solved.dense = converted(values, task_.model.dense_type(linear), task_.model.threads());
        }
        fill_record(plan, is_scaled, observed, statistics, solved);
        return solved;
    }

    // Ranges that a search found for groups of rows.
    void clip(size_t linear, const TensorView& weight) const {
        const auto found = scaling_.limits.find(linear);
        if (found != scaling_.limits.end()) clip_groups(found->second, weight);
    }

    void run_solvers(const LinearPlan& plan, const ObservedLinear& observed,
                     const SiteStatistics* statistics, const TensorView& weight,
                     SolvedLinear& solved) {
        const bool needs_gram = plan.needs_gram();
        NVLLM_CHECK(!needs_gram || (statistics != nullptr && !statistics->gram.empty()),
                    "inputs of " + observed.name.name + " were not observed");
        Tensor gram = needs_gram ? scaled_gram(*statistics, solved.column_factors) : Tensor();
        if (needs_gram && solved.turned == ResidualSide::reads) {
            // R^T H R: a copy already, as its columns were scaled.
            const Rotation& rotation = task_.plan.rotation()->rotation();
            rotation.turn_rows(task_.model.threads(), gram.mutable_view(), false);
            rotation.turn_columns(task_.model.threads(), gram.mutable_view(), false);
        }
        LinearProblem problem{task_.context, weight, gram.view()};
        problem.num_tokens = statistics != nullptr ? statistics->num_tokens : 0;
        problem.scale_type = plan.scale_type(task_.model.dense_type(solved.linear));
        if (plan.pruner != nullptr) {
            problem.options = plan.pruned_by->solver;
            solved.record.dampening = plan.pruner->solve(problem).dampening;
            problem.keeps_zeros = true;
        }
        if (plan.quantizer == nullptr) return;
        problem.options = plan.quantized_by->solver;
        problem.arguments = &*plan.scheme->weights;
        problem.largest = largest_[observed.site];
        LinearSolution solution = plan.quantizer->solve(problem);
        solved.matrix = std::move(solution.matrix);
        solved.record.dampening = std::max(solved.record.dampening, solution.dampening);
        set_input_scales(*plan.scheme, statistics, solved.column_factors, *solved.matrix);
    }

    void fill_record(const LinearPlan& plan, bool is_scaled, const ObservedLinear& observed,
                     const SiteStatistics* statistics, SolvedLinear& solved) const {
        LinearRecord& record = solved.record;
        record.name = observed.name.name;
        record.in = observed.name.in;
        record.out = observed.name.out;
        record.method = method_name(plan, is_scaled, task_.plan);
        const char* const without_codes = plan.is_sparse ? "sparse-24-bitmask" : "dense";
        record.format = solved.matrix ? plan.format : without_codes;
        record.bits_per_weight =
            bits_per_weight(solved, plan, task_.model.dense_type(solved.linear));
        const Tensor kept = effective_weight(solved, task_.model, task_.plan);
        const Tensor original = task_.model.weight(solved.linear);
        record.sparsity = share_of_zeros(kept.view());
        record.error_is_of_output = statistics != nullptr && !statistics->gram.empty();
        record.relative_error =
            record.error_is_of_output
                ? output_error(task_.context, original.view(), kept.view(), statistics->gram.view())
                      .relative()
                : relative_square(original.view(), kept.view());
    }

    void add_scaled_bias(const SolvedLinear& solved, SolvedBlock& block) const {
        const LinearSpec& name = task_.model.linears()[solved.linear].name;
        const bool is_turned = solved.turned == ResidualSide::writes;
        if (!name.bias || (solved.row_divisors.empty() && !is_turned)) return;
        std::vector<float> bias = *task_.model.vector(name.name + ".bias");
        for (size_t i = 0; i < solved.row_divisors.size(); ++i) bias[i] /= solved.row_divisors[i];
        const auto size = static_cast<int64_t>(bias.size());
        if (is_turned) {
            turn(task_.model.threads(), task_.plan, solved.turned,
                 TensorView(bias.data(), DType::f32, {size, 1}), false);
        }
        const ConstTensorView view(bias.data(), DType::f32, {size});
        block.others.push_back(
            {name.name + ".bias",
             converted(view, task_.model.stored_type(name.name + ".bias"), task_.model.threads())});
    }

    const BlockTask& task_;
    ChannelScaling scaling_;
    std::map<size_t, float> largest_;  // by site
};

}  // namespace

SolvedBlock solve_block(const BlockTask& task, const std::vector<size_t>& linears,
                        std::optional<int32_t> block) {
    SolvedBlock solved = BlockSolver(task, linears).solve(linears);
    if (task.cached != nullptr) {
        for (NamedTensor& scale : cache_scales(task, *block, solved.linears)) {
            solved.others.push_back(std::move(scale));
        }
    }
    if (task.plan.rotation() == nullptr) return solved;
    for (NamedTensor& tensor : task.plan.rotation()->tensors(task.model, block)) {
        solved.others.push_back(std::move(tensor));
    }
    return solved;
}

Tensor effective_weight(const SolvedLinear& solved, const HookedModel& model,
                        const ModelPlan& plan) {
    const Tensor weight = solved.matrix
                              ? dequantized(*solved.matrix, model.threads())
                              : converted(solved.dense.view(), DType::f32, model.threads());
    turn(model.threads(), plan, solved.turned, weight.mutable_view(), true);
    scale_matrix(model.threads(), weight.mutable_view(), solved, true);
    return weight;
}

namespace {

// The bias of a linear whose stack goes away, unless it changed.
void add_stacked_bias(const SolvedLinear& solved, const SolvedBlock& block,
                      const HookedModel& model, std::vector<NamedTensor>& tensors) {
    const LinearSpec& linear = model.linears()[solved.linear].name;
    const std::string name = linear.name + ".bias";
    const bool is_changed =
        std::any_of(block.others.begin(), block.others.end(),
                    [&](const NamedTensor& other) { return other.name == name; });
    if (!linear.bias || is_changed || !model.is_stacked(solved.linear)) return;
    std::vector<float> values = *model.vector(name);
    const ConstTensorView view(values.data(), DType::f32, {linear.out});
    tensors.push_back({name, converted(view, model.stored_type(name), model.threads())});
}

}  // namespace

std::vector<NamedTensor> stored_tensors(const SolvedBlock& block, const HookedModel& model,
                                        const ModelPlan& plan) {
    std::vector<NamedTensor> tensors;
    const auto add_sparse = [&](const Tensor& weight, const std::string& linear) {
        for (NamedTensor& part : pack_sparse(weight, linear)) tensors.push_back(std::move(part));
    };
    for (const SolvedLinear& solved : block.linears)
        add_stacked_bias(solved, block, model, tensors);
    for (const SolvedLinear& solved : block.linears) {
        const LinearSpec& name = model.linears()[solved.linear].name;
        const bool is_sparse = plan.linear(solved.linear).is_sparse;
        if (!solved.matrix && is_sparse) {
            add_sparse(solved.dense, name.name);
            continue;
        }
        if (!solved.matrix) {
            const bool is_turned = name.order == MatrixOrder::in_out;
            tensors.push_back(
                {name.name + ".weight",
                 is_turned ? transposed(solved.dense, model.threads()) : solved.dense});
            continue;
        }
        for (auto& packed : pack(*solved.matrix, name.name, plan.linear(solved.linear).format,
                                 model.dense_type(solved.linear))) {
            if (is_sparse && packed.name == name.name + ".weight") {
                add_sparse(packed.tensor, name.name);
            } else {
                tensors.push_back({packed.name, packed.tensor});
            }
        }
    }
    tensors.insert(tensors.end(), block.others.begin(), block.others.end());
    return tensors;
}

}  // namespace nvllm::quantize
