// Three runs of each block: dense, as it was solved, and as it was written.
#include "lib/quantize/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/error.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/quantize/deferred_part.h"

namespace nvllm::quantize {
namespace {

// How far the written block may be from the solved one, as a share of what the dense block adds:
// what rounding inputs costs is not in the solved one.
double allowed_difference(const ModelPlan& plan, const std::vector<SolvedLinear>& linears) {
    double allowed = 0.05;
    for (const SolvedLinear& solved : linears) {
        const QuantizationScheme* const scheme = plan.linear(solved.linear).scheme;
        if (scheme == nullptr || !scheme->input_activations) continue;
        allowed = std::max(allowed, scheme->input_activations->bits >= 8 ? 0.25 : 1.0);
    }
    return allowed;
}

// The written model, of which quantized linears are read block by block.
class WrittenBlocks final : public LinearHook {
  public:
    WrittenBlocks(const std::filesystem::path& folder, DType compute_type, ThreadPool& threads)
        : source_(Checkpoint::open(folder), compute_type, threads) {
        if (auto config = read_quantization_config(folder)) {
            source_.set_quantization(
                std::make_shared<const QuantizationConfig>(*std::move(config)));
        }
        ModelLoadOptions options;
        options.directory = folder;
        options.dtype = compute_type;
        options.threads = &threads;
        options.prefetch = false;
        options.hook = this;
        model_ = load_model(options);
    }

    std::unique_ptr<LinearPart> defer(const LinearSpec& name) override {
        if (is_dense(source_, name) && !source_.parts().is_copied(name.weight())) return nullptr;
        auto part = std::make_unique<DeferredPart>(
            name, source_.compute_type(), [this, name] { return load_linear(source_, name); });
        parts_.push_back(part.get());
        return part;
    }
    std::unique_ptr<LinearPart> wrap(std::span<const LinearSpec>, size_t,
                                     std::unique_ptr<LinearPart> part) override {
        return part;
    }

    void name_part(const std::string& name, const StoredPart& part) override {
        source_.name_part(name, part);
    }

    Model& model() { return *model_; }
    void release() {
        for (DeferredPart* const part : parts_) part->release();
    }

  private:
    CheckpointSource source_;
    std::vector<DeferredPart*> parts_;  // the model's own
    std::unique_ptr<Model> model_;
};

Tensor copy_of(const Tensor& rows) {
    Tensor copy = Tensor::allocate(DType::f32, {rows.view().dim(0), rows.view().dim(1)});
    std::memcpy(copy.mutable_view().data, rows.view().data, rows.bytes());
    return copy;
}

double square_of_difference(const Tensor& a, const Tensor& b) {
    double sum = 0.0;
    for (int64_t i = 0; i < a.view().numel(); ++i) {
        const double difference =
            static_cast<double>(a.view().as<float>()[i]) - b.view().as<float>()[i];
        sum += difference * difference;
    }
    return sum;
}

class Verifier {
  public:
    Verifier(HookedModel& model, const ModelPlan& plan, const WrittenModel& written,
             std::span<const int32_t> tokens)
        : model_(model),
          plan_(plan),
          written_(written),
          tokens_(tokens),
          blocks_(written.folder, model.compute_type(), model.threads()),
          dense_forward_(model.model(), model.threads(), std::ssize(tokens)),
          written_forward_(blocks_.model(), model.threads(), std::ssize(tokens)) {}

    std::vector<double> run() {
        const int64_t hidden = model_.model().config().hidden_size;
        Tensor x = Tensor::allocate(DType::f32, {std::ssize(tokens_), hidden});
        dense_forward_.embed(tokens_, x.mutable_view());
        std::vector<double> errors;
        for (int32_t block = 0; block < model_.model().num_blocks(); ++block) {
            Tensor dense = copy_of(x);
            dense_forward_.block(block, tokens_, dense.mutable_view());
            errors.push_back(compare(block, x, dense));
            x = std::move(dense);
            model_.release_block(block);
            blocks_.release();
        }
        check_logits(x);
        return errors;
    }

  private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {}; nothing was published", written_.folder.string(), what));
    }

    // The written model's stream may be turned.
    void turn(const Tensor& rows, bool back) const {
        if (plan_.rotation() == nullptr) return;
        plan_.rotation()->rotation().turn_rows(model_.threads(), rows.mutable_view(), back);
    }

    Tensor as_written(int32_t block, const Tensor& x) {
        Tensor rows = copy_of(x);
        turn(rows, false);
        written_forward_.block(block, tokens_, rows.mutable_view());
        turn(rows, true);
        return rows;
    }

    Tensor as_solved(int32_t block, const Tensor& x, const SolvedBlock& solved) {
        for (const SolvedLinear& linear : solved.linears) {
            model_.replace(linear.linear, effective_weight(linear, model_, plan_));
        }
        Tensor rows = copy_of(x);
        dense_forward_.block(block, tokens_, rows.mutable_view());
        for (const SolvedLinear& linear : solved.linears) model_.restore(linear.linear);
        return rows;
    }

    // |written - dense|^2 over what the block adds.
    double compare(int32_t block, const Tensor& x, const Tensor& dense) {
        const Tensor written = as_written(block, x);
        const double added = std::max(square_of_difference(dense, x), 1e-30);
        const double error = square_of_difference(written, dense) / added;
        if (!std::isfinite(error)) {
            refuse(fmt::format("block {} gives values that are not finite", block));
        }
        const std::optional<SolvedBlock> solved = written_.solved(block);
        const Tensor expected = solved ? as_solved(block, x, *solved) : dense;
        const double difference = square_of_difference(written, expected) / added;
        const double allowed =
            allowed_difference(plan_, solved ? solved->linears : std::vector<SolvedLinear>());
        if (difference > allowed) {
            refuse(
                fmt::format("block {} does not give what was solved: it is off by {:.3g} of "
                            "what the block adds, and {:.3g} is what rounding may cost",
                            block, difference, allowed));
        }
        return error;
    }

    void check_logits(const Tensor& x) {
        turn(x, false);
        written_forward_.logits(
            tokens_, x.mutable_view(), [&](int64_t, const ConstTensorView& rows) {
                const float* const values = rows.as<float>();
                const bool is_finite = std::all_of(values, values + rows.numel(), [](float value) {
                    return std::isfinite(value);
                });
                if (!is_finite) refuse("its output matrix gives values that are not finite");
            });
    }

    HookedModel& model_;
    const ModelPlan& plan_;
    const WrittenModel& written_;
    std::span<const int32_t> tokens_;
    WrittenBlocks blocks_;
    BlockForward dense_forward_;
    BlockForward written_forward_;
};

}  // namespace

std::vector<double> verify_written(HookedModel& model, const ModelPlan& plan,
                                   const WrittenModel& written, std::span<const int32_t> tokens) {
    return Verifier(model, plan, written, tokens).run();
}

}  // namespace nvllm::quantize
