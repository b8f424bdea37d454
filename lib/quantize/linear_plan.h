// Which linear of a model is treated how: a recipe resolved against the model's own names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/quantize/hooked_model.h"
#include "lib/quantize/methods/rotation.h"
#include "lib/quantize/recipe.h"
#include "lib/quantize/scaling_plan.h"

namespace nvllm::quantize {

// Who defined a storage format, by the name that configs have for them: compressed-tensors, awq or
// gptq.
std::string_view method_of(std::string_view format);

// How one linear is treated. Pointers are into the plan's recipe and the table of solvers.
struct LinearPlan {
    const QuantizationScheme* scheme = nullptr;  // null: it stays dense
    std::string format;                          // of the scheme, inferred where it names none
    const Solver* quantizer = nullptr;
    const Modifier* quantized_by = nullptr;
    const Solver* pruner = nullptr;
    const Modifier* pruned_by = nullptr;
    bool is_sparse = false;  // stored as sparse-24-bitmask
    // Stored by itself, where the source has a stack of which something changes.
    bool is_taken_apart = false;

    // Of stored scales, of a linear whose weights have this type: AWQ and GPTQ have halves.
    DType scale_type(DType weights) const;
    // How inputs are rounded where a file has to say with which scale; null: it has not.
    const QuantizationArguments* static_inputs() const;
    bool is_changed() const { return quantizer != nullptr || pruner != nullptr; }
    bool is_rewritten() const { return is_changed() || is_taken_apart; }
    bool needs_gram() const {
        return (quantizer != nullptr && quantizer->needs_gram) ||
               (pruner != nullptr && pruner->needs_gram);
    }
};

// Immutable; keeps the recipe.
class ModelPlan {
  public:
    // Throws bad_data for a target that matches nothing, for a linear whose inputs the group size
    // does not divide, for linears that two modifiers round in two ways, for methods in an order
    // that cannot be kept, and for what the storage format cannot express.
    ModelPlan(Recipe recipe, const HookedModel& model);
    ModelPlan(const ModelPlan&) = delete;
    ModelPlan& operator=(const ModelPlan&) = delete;

    const Recipe& recipe() const { return recipe_; }
    // What the user should know of it before it is carried out.
    const std::vector<std::string>& notes() const { return notes_; }
    // Of the model's linear of this index.
    const LinearPlan& linear(size_t index) const { return linears_[index]; }
    // What the modifier of this index in recipe() scales.
    const std::vector<ScaledFlow>& scaled_flows(size_t modifier) const {
        return scaled_flows_[modifier];
    }
    // Whether the checkpoint will have anything to say of linears or of keys and values, other than
    // that they are dense.
    bool quantizes() const;
    // Of keys and values; empty: they stay as they are.
    std::optional<QuantizationArguments> kv_cache_scheme() const;
    // Null: the residual stream stays as it is.
    const ModelRotation* rotation() const { return rotation_.get(); }
    // Whether an output matrix that is the embedding becomes one of its own.
    bool unties(const HookedModel& model) const;
    // What the checkpoint will say of itself. REQUIRES: quantizes().
    QuantizationConfig config(const HookedModel& model) const;

  private:
    void resolve(const Modifier& modifier, const HookedModel& model);
    void check_ignored(const HookedModel& model);
    void note_mixed_inputs(const HookedModel& model);
    QuantizationConfig config_by_patterns(const HookedModel& model) const;
    QuantizationConfig config_by_names(const HookedModel& model) const;
    bool says_the_same(const QuantizationConfig& config, const HookedModel& model) const;
    QuantizationConfig config_of_one_scheme(const HookedModel& model, size_t example) const;
    void ignore_routers(const HookedModel& model);
    void ignore_latent_parts(const HookedModel& model);
    void check_heads(const HookedModel& model) const;
    void add_rotation(const HookedModel& model);
    void find_sparse(const HookedModel& model);
    std::optional<SparsityConfig> sparsity(const HookedModel& model) const;

    Recipe recipe_;
    std::vector<std::unique_ptr<QuantizationConfig>> matchers_;  // that schemes point into
    std::vector<LinearPlan> linears_;
    std::unique_ptr<const ModelRotation> rotation_;
    std::vector<std::vector<ScaledFlow>> scaled_flows_;  // of each modifier
    std::vector<std::string> notes_;
};

// Whether the linear chooses experts.
bool is_router(std::string_view linear);

// Whether one of the patterns (names, "Linear", "re:...") means this linear.
bool matches_any(std::string_view name, const std::vector<std::string>& patterns);

}  // namespace nvllm::quantize
