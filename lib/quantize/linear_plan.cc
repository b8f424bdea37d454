// Targets and ignore lists against names of linears.
#include "lib/quantize/linear_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "kernels/error.h"
#include "lib/quantize/methods/cache_scales.h"

namespace nvllm::quantize {
namespace {

// What families call them.
constexpr auto kRouters = std::to_array<const char*>(
    {"re:.*[.]gate$", "re:.*[.]router$", "re:.*[.]router[.](layer|proj)$"});

void check_format(const LinearSpec& name, const QuantizationScheme& scheme,
                  const std::string& format) {
    check_storable(format, name, *scheme.weights);
    const bool has_inputs = scheme.input_activations && method_of(format) != "compressed-tensors";
    if (has_inputs) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} knows weights alone, and this scheme quantizes activations "
                                "too",
                                name.name, format));
    }
    const bool is_of_integers = format == "pack-quantized" || format == "int-quantized";
    if (is_of_integers && scheme.weights->kind != NumberKind::integer) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} stores integers, and its scheme has floats; leave --format "
                                "out",
                                name.name, format));
    }
    // Of its readers some wrap what is below 0 and some do not.
    if (format == "gptq" && !scheme.weights->symmetric) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: gptq stores zero points less one, so that 0 has no place; "
                                "--format gptq_v2 stores them as they are, or take a symmetric "
                                "scheme",
                                name.name));
    }
}

// A matcher of names alone, by the rules that quantization configs are resolved with.
QuantizationConfig matcher_of(std::vector<QuantizationGroup> groups,
                              std::vector<std::string> ignore) {
    QuantizationConfig::Fields fields;
    fields.groups = std::move(groups);
    fields.ignore = std::move(ignore);
    return QuantizationConfig(std::move(fields));
}

QuantizationScheme any_scheme() {
    QuantizationScheme scheme;
    scheme.format = "dense";
    scheme.weights.emplace();
    return scheme;
}

void check_groups(const LinearSpec& name, const QuantizationArguments& arguments) {
    if (!arguments.group_size || *arguments.group_size <= 0) return;
    if (name.in % *arguments.group_size == 0) return;
    throw Error(
        ErrorKind::bad_data,
        fmt::format("{}: its {} inputs are no multiple of the group size {}; choose another "
                    "(--group-size 32, 64 or channel), or keep it dense with --ignore {}",
                    name.name, name.in, *arguments.group_size, name.name));
}

// Recipes that prune may name whole layers ("re:model.layers.\\d+$"): all linears below them are
// meant.
std::vector<std::string> linears_below(const std::vector<std::string>& targets,
                                       const HookedModel& model) {
    std::vector<std::string> expanded;
    for (const std::string& target : targets) {
        std::vector<std::string> below;
        for (const ObservedLinear& linear : model.linears()) {
            std::string_view above = linear.name.name;
            bool is_below = false;
            for (size_t dot = above.rfind('.'); dot != std::string_view::npos && !is_below;
                 dot = above.rfind('.')) {
                above = above.substr(0, dot);
                is_below = target != "Linear" && matches_any(above, {target});
            }
            if (is_below) below.push_back(linear.name.name);
        }
        if (below.empty()) below.push_back(target);
        expanded.insert(expanded.end(), below.begin(), below.end());
    }
    return expanded;
}

// Each target must mean at least one linear: a misspelt one would silently leave it dense.
void check_targets(const std::vector<std::string>& targets, const HookedModel& model) {
    for (const std::string& target : targets) {
        const bool is_met = std::any_of(
            model.linears().begin(), model.linears().end(),
            [&](const ObservedLinear& linear) { return matches_any(linear.name.name, {target}); });
        if (is_met) continue;
        const std::string example =
            model.linears().empty() ? "none" : model.linears().front().name.name;
        throw Error(ErrorKind::bad_data,
                    fmt::format("the target '{}' matches no linear of this model; they are called "
                                "like {} (a pattern begins with re:, Linear means all)",
                                target, example));
    }
}

// What changes channels or weights would change what was rounded before it.
void check_order(const Recipe& recipe) {
    std::string pruner, quantizer;
    for (const Modifier& modifier : recipe.modifiers) {
        const Method& method = find_method(modifier.method);
        const bool prepares = method.scales || modifier.method == "rotation";
        const std::string& before = quantizer.empty() ? pruner : quantizer;
        if (prepares && !before.empty()) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("{0} comes after {1}, and would change the weights that {1} "
                                    "decided: name {0} before it",
                                    modifier.method, before));
        }
        const Solver* const solver =
            method.solver == nullptr ? nullptr : find_solver(method.solver);
        if (solver != nullptr && solver->prunes) pruner = modifier.method;
        if (!modifier.groups.empty()) quantizer = modifier.method;
    }
}

// Whether two modifiers would do the same to a linear.
bool is_the_same(const LinearPlan& plan, const QuantizationScheme& scheme, const Solver* solver) {
    return *plan.scheme == scheme && plan.quantizer == solver;
}

std::string described(const Modifier& modifier, const QuantizationScheme& scheme) {
    return fmt::format("{} ({})", modifier.method, scheme_name(scheme));
}

// Every layer must have a place for scales of its keys and values.
void check_cached(const HookedModel& model) {
    for (int32_t block = 0; block < model.model().num_blocks(); ++block) {
        attention_name(model, block);
    }
}

// A loader looks for all experts of a layer in one place.
// `is_scaled`: what is done to one may change others.
void take_stacks_apart(const HookedModel& model, bool is_scaled, std::vector<LinearPlan>& linears) {
    std::set<std::optional<int32_t>> changed;
    for (size_t i = 0; i < linears.size(); ++i) {
        const bool is_changed =
            is_scaled || linears[i].is_changed() || model.is_stored_otherwise(i);
        if (is_changed && model.is_stacked(i)) changed.insert(model.linears()[i].block);
    }
    if (changed.empty()) return;
    for (size_t i = 0; i < linears.size(); ++i) {
        linears[i].is_taken_apart =
            changed.contains(model.linears()[i].block) && model.is_stacked(i);
    }
}

}  // namespace

bool is_router(std::string_view linear) {
    return std::any_of(kRouters.begin(), kRouters.end(),
                       [&](const char* pattern) { return matches_any(linear, {pattern}); });
}

std::string_view method_of(std::string_view format) {
    if (format == "awq") return "awq";
    return format.starts_with("gptq") ? "gptq" : "compressed-tensors";
}

const QuantizationArguments* LinearPlan::static_inputs() const {
    if (scheme == nullptr || !scheme->input_activations) return nullptr;
    const QuantizationArguments& inputs = *scheme->input_activations;
    return inputs.dynamic == DynamicScales::yes ? nullptr : &inputs;
}

DType LinearPlan::scale_type(DType weights) const {
    return scheme != nullptr && method_of(format) != "compressed-tensors" ? DType::f16 : weights;
}

bool matches_any(std::string_view name, const std::vector<std::string>& patterns) {
    if (patterns.empty()) return false;
    return matcher_of({{patterns, any_scheme()}}, {}).scheme_for(name) != nullptr;
}

ModelPlan::ModelPlan(Recipe recipe, const HookedModel& model)
    : recipe_(std::move(recipe)), linears_(model.linears().size()) {
    check_order(recipe_);
    check_ignored(model);
    ignore_routers(model);
    ignore_latent_parts(model);
    for (const Modifier& modifier : recipe_.modifiers) resolve(modifier, model);
    note_mixed_inputs(model);
    add_rotation(model);
    for (const Modifier& modifier : recipe_.modifiers) {
        const bool scales = find_method(modifier.method).scales;
        scaled_flows_.push_back(scales ? flows_to_scale(modifier, model, notes_)
                                       : std::vector<ScaledFlow>());
    }
    const bool scales = std::any_of(scaled_flows_.begin(), scaled_flows_.end(),
                                    [](const auto& flows) { return !flows.empty(); });
    take_stacks_apart(model, scales || rotation_ != nullptr, linears_);
    if (recipe_.compresses_zeros) find_sparse(model);
    if (kv_cache_scheme()) check_cached(model);
    const bool changes = kv_cache_scheme().has_value() ||
                         std::any_of(linears_.begin(), linears_.end(),
                                     [](const LinearPlan& plan) { return plan.is_changed(); });
    if (!changes) {
        throw Error(ErrorKind::bad_data,
                    "the recipe changes no linear of this model: all are ignored");
    }
    check_heads(model);
    if (quantizes()) config(model);  // what cannot be said is found before it is computed
}

void ModelPlan::check_ignored(const HookedModel& model) {
    std::set<std::string> told;
    for (const Modifier& modifier : recipe_.modifiers) {
        for (const std::string& pattern : modifier.ignore) {
            const bool is_met = std::any_of(model.linears().begin(), model.linears().end(),
                                            [&](const ObservedLinear& linear) {
                                                return matches_any(linear.name.name, {pattern});
                                            });
            if (is_met || !told.insert(pattern).second) continue;
            const std::string what =
                fmt::format("'{}' is to be ignored and matches no linear of this model", pattern);
            if (!recipe_.ignore_must_match) {
                notes_.push_back(what);
                continue;
            }
            throw Error(ErrorKind::bad_data,
                        fmt::format("{}; they are called like {} (a pattern begins with re:)", what,
                                    model.linears().front().name.name));
        }
    }
}

// vLLM makes one matrix of those that read the same input.
void ModelPlan::note_mixed_inputs(const HookedModel& model) {
    for (size_t i = 1; i < linears_.size(); ++i) {
        const ObservedLinear& before = model.linears()[i - 1];
        const ObservedLinear& linear = model.linears()[i];
        const bool is_alike =
            (linears_[i - 1].scheme == nullptr) == (linears_[i].scheme == nullptr) &&
            (linears_[i].scheme == nullptr || *linears_[i].scheme == *linears_[i - 1].scheme);
        if (before.site != linear.site || is_alike) continue;
        notes_.push_back(
            fmt::format("{} and {} read one input and get different schemes: vLLM makes one matrix "
                        "of them and refuses that",
                        before.name.name, linear.name.name));
        return;
    }
}

// A head that stands for the embedding too cannot be replaced: the embedding would be gone.
void ModelPlan::check_heads(const HookedModel& model) const {
    for (size_t i = 0; i < linears_.size(); ++i) {
        const LinearSpec& name = model.linears()[i].name;
        if (!linears_[i].is_changed() || name.tied_to != name.name + ".weight") continue;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: the checkpoint stores it and not the embedding it is tied to; "
                                "ignore it, or save the model with transformers first",
                                name.name));
    }
}

// What chooses experts is small and decides much; engines expect it dense.
void ModelPlan::ignore_routers(const HookedModel& model) {
    for (const char* const pattern : kRouters) {
        const bool is_met = std::any_of(
            model.linears().begin(), model.linears().end(),
            [&](const ObservedLinear& linear) { return matches_any(linear.name.name, {pattern}); });
        if (!is_met) continue;
        for (Modifier& modifier : recipe_.modifiers) modifier.ignore.emplace_back(pattern);
    }
}

// Latent attention multiplies parts of it by themselves, so it stays dense.
void ModelPlan::ignore_latent_parts(const HookedModel& model) {
    if (!model.model().config().latent_attention) return;
    for (Modifier& modifier : recipe_.modifiers) modifier.ignore.emplace_back("re:.*[.]kv_b_proj$");
}

void ModelPlan::add_rotation(const HookedModel& model) {
    for (const Modifier& modifier : recipe_.modifiers) {
        if (modifier.method != "rotation") continue;
        rotation_ = std::make_unique<const ModelRotation>(model, modifier.seed);
    }
    const bool scales =
        std::any_of(recipe_.modifiers.begin(), recipe_.modifiers.end(),
                    [](const Modifier& modifier) { return find_method(modifier.method).scales; });
    if (rotation_ == nullptr || !scales) return;
    throw Error(ErrorKind::usage,
                "rotation leaves no channels to scale: use it with rtn, gptq or sparsegpt, and awq "
                "or smoothquant without it");
}

// Which linears have their zeros in twos of four, and that the format has them.
void ModelPlan::find_sparse(const HookedModel& model) {
    for (size_t i = 0; i < linears_.size(); ++i) {
        LinearPlan& plan = linears_[i];
        if (plan.pruner == nullptr || plan.pruned_by->solver.mask != MaskStructure{2, 4}) continue;
        const LinearSpec& name = model.linears()[i].name;
        const DType type = model.dense_type(i);
        const bool is_stored = plan.scheme == nullptr ? type == DType::bf16 || type == DType::f16
                                                      : plan.format == "float-quantized";
        if (!is_stored || name.order != MatrixOrder::out_in || name.in % 4 != 0) {
            throw Error(
                ErrorKind::bad_data,
                fmt::format("{}: sparse-24-bitmask has no place for it ({}, {} inputs): it stores "
                            "linears [out, in] of bfloat16, float16 or float8, with inputs in "
                            "fours; store zeros as they are (--no-save-compressed)",
                            name.name, plan.scheme == nullptr ? dtype_name(type) : plan.format,
                            name.in));
        }
        plan.is_sparse = true;
    }
    if (std::any_of(linears_.begin(), linears_.end(),
                    [](const LinearPlan& plan) { return plan.is_sparse; })) {
        return;
    }
    throw Error(ErrorKind::bad_data,
                "nothing can be saved compressed: no linear has two zeros in each four values "
                "(--method sparsegpt --mask-structure 2:4)");
}

void ModelPlan::resolve(const Modifier& modifier, const HookedModel& model) {
    const Method& method = find_method(modifier.method);
    if (method.solver == nullptr) return;
    const Solver* const solver = find_solver(method.solver);
    std::vector<QuantizationGroup> groups = modifier.groups;
    const bool prunes_only = groups.empty();
    if (prunes_only && !solver->prunes) return;
    if (prunes_only) groups = {{linears_below(modifier.targets, model), any_scheme()}};
    for (const QuantizationGroup& group : groups) check_targets(group.targets, model);
    const QuantizationConfig& matcher = *matchers_.emplace_back(
        std::make_unique<QuantizationConfig>(matcher_of(std::move(groups), modifier.ignore)));
    for (size_t i = 0; i < linears_.size(); ++i) {
        const ObservedLinear& linear = model.linears()[i];
        const QuantizationScheme* const scheme = matcher.scheme_for(linear.name.name);
        if (scheme == nullptr) continue;
        LinearPlan& plan = linears_[i];
        if (solver->prunes) {
            if (plan.quantizer != nullptr) {
                throw Error(ErrorKind::bad_data,
                            fmt::format("{}: {} comes after {}, which rounded it already: name {} "
                                        "first",
                                        linear.name.name, modifier.method,
                                        plan.quantized_by->method, modifier.method));
            }
            plan.pruner = solver;
            plan.pruned_by = &modifier;
        }
        if (prunes_only || !scheme->weights) continue;
        const Solver* const quantizer = solver->quantizes ? solver : find_solver("rtn");
        if (plan.quantizer != nullptr && !is_the_same(plan, *scheme, quantizer)) {
            throw Error(
                ErrorKind::bad_data,
                fmt::format("{0}: two modifiers round it, {1} and then {2}; which is meant? Put it "
                            "into the ignore list of the other (ignore: [\"{0}\"], or re: and a "
                            "pattern)",
                            linear.name.name, described(*plan.quantized_by, *plan.scheme),
                            described(modifier, *scheme)));
        }
        check_groups(linear.name, *scheme->weights);
        plan.scheme = scheme;
        plan.format =
            scheme->format.empty() ? std::string(inferred_format(*scheme)) : scheme->format;
        check_format(linear.name, *scheme, plan.format);
        plan.quantizer = quantizer;
        plan.quantized_by = &modifier;
    }
}

std::optional<QuantizationArguments> ModelPlan::kv_cache_scheme() const {
    for (const Modifier& modifier : recipe_.modifiers) {
        if (modifier.kv_cache_scheme) return modifier.kv_cache_scheme;
    }
    return std::nullopt;
}

bool ModelPlan::quantizes() const {
    if (kv_cache_scheme() || recipe_.compresses_zeros) return true;
    return std::any_of(linears_.begin(), linears_.end(),
                       [](const LinearPlan& plan) { return plan.scheme != nullptr; });
}

bool ModelPlan::unties(const HookedModel& model) const {
    for (size_t i = 0; i < linears_.size(); ++i) {
        const bool is_changed = linears_[i].is_changed() || rotation_ != nullptr;
        if (is_changed && !model.linears()[i].name.tied_to.empty()) return true;
    }
    return false;
}

}  // namespace nvllm::quantize
