// Targets and ignore lists against names of linears.
#include "lib/quantize/linear_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/error.h"
#include "lib/quantize/cache_scales.h"

namespace nvllm::quantize {
namespace {

void check_format(const LinearName& name, const QuantizationScheme& scheme,
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

void check_groups(const LinearName& name, const QuantizationArguments& arguments) {
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
                                       const ObservedModel& model) {
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
void check_targets(const std::vector<std::string>& targets, const ObservedModel& model) {
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

// Matrices that are no linears (embeddings) and that a pattern means all the same: readers that
// know more classes than linears would look for their scales.
std::vector<std::string> tables_meant(const ObservedModel& model,
                                      const std::vector<QuantizationGroup>& groups) {
    constexpr std::string_view kWeight = ".weight";
    std::set<std::string_view> linears;
    for (const ObservedLinear& linear : model.linears()) linears.insert(linear.name.name);
    std::vector<std::string> targets;
    for (const QuantizationGroup& group : groups) {
        std::copy_if(group.targets.begin(), group.targets.end(), std::back_inserter(targets),
                     [](const std::string& target) { return target != "Linear"; });
    }
    std::vector<std::string> tables;
    for (const std::string_view tensor : model.checkpoint().names()) {
        if (!tensor.ends_with(kWeight) || model.checkpoint().find(tensor)->rank != 2) continue;
        const std::string_view name = tensor.substr(0, tensor.size() - kWeight.size());
        if (!linears.contains(name) && matches_any(name, targets)) tables.emplace_back(name);
    }
    return tables;
}

// But for what only calibration has to know.
bool multiplies_alike(std::optional<QuantizationArguments> a,
                      std::optional<QuantizationArguments> b) {
    if (a) a->range_share = kMovingRangeShare;
    if (b) b->range_share = kMovingRangeShare;
    return a == b;
}

// Every layer must have a place for scales of its keys and values.
void check_cached(const ObservedModel& model) {
    for (int32_t block = 0; block < model.model().num_blocks(); ++block) {
        attention_name(model, block);
    }
}

}  // namespace

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

ModelPlan::ModelPlan(Recipe recipe, const ObservedModel& model)
    : recipe_(std::move(recipe)), linears_(model.linears().size()) {
    check_order(recipe_);
    check_ignored(model);
    ignore_routers(model);
    for (const Modifier& modifier : recipe_.modifiers) resolve(modifier, model);
    note_mixed_inputs(model);
    add_rotation(model);
    for (const Modifier& modifier : recipe_.modifiers) {
        const bool scales = find_method(modifier.method).scales;
        scaled_flows_.push_back(scales ? flows_to_scale(modifier, model, notes_)
                                       : std::vector<ScaledFlow>());
    }
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

void ModelPlan::check_ignored(const ObservedModel& model) {
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
void ModelPlan::note_mixed_inputs(const ObservedModel& model) {
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
void ModelPlan::check_heads(const ObservedModel& model) const {
    for (size_t i = 0; i < linears_.size(); ++i) {
        const LinearName& name = model.linears()[i].name;
        if (!linears_[i].is_changed() || name.tied_to != name.name + ".weight") continue;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: the checkpoint stores it and not the embedding it is tied to; "
                                "ignore it, or save the model with transformers first",
                                name.name));
    }
}

// What chooses experts is small and decides much; engines expect it dense.
void ModelPlan::ignore_routers(const ObservedModel& model) {
    const bool has_routers = std::any_of(
        model.linears().begin(), model.linears().end(),
        [](const ObservedLinear& linear) { return linear.name.name.ends_with(".gate"); });
    if (!has_routers) return;
    for (Modifier& modifier : recipe_.modifiers) modifier.ignore.emplace_back("re:.*[.]gate$");
}

void ModelPlan::add_rotation(const ObservedModel& model) {
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
void ModelPlan::find_sparse(const ObservedModel& model) {
    for (size_t i = 0; i < linears_.size(); ++i) {
        LinearPlan& plan = linears_[i];
        if (plan.pruner == nullptr || plan.pruned_by->solver.mask != MaskStructure{2, 4}) continue;
        const LinearName& name = model.linears()[i].name;
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

std::optional<SparsityConfig> ModelPlan::sparsity(const ObservedModel& model) const {
    if (!recipe_.compresses_zeros) return std::nullopt;
    SparsityConfig sparsity;
    sparsity.format = "sparse-24-bitmask";
    sparsity.structure = "2:4";
    sparsity.targets = {"Linear"};
    int64_t zeros = 0, values = 0;
    bool has_head = false;
    for (size_t i = 0; i < linears_.size(); ++i) {
        const LinearName& name = model.linears()[i].name;
        if (linears_[i].is_sparse) {
            zeros += name.in * name.out / 2;
        } else {
            sparsity.ignore.push_back(name.name);
        }
        has_head = has_head || name.name == "lm_head";
    }
    if (!has_head) sparsity.ignore.emplace_back("lm_head");
    for (const std::string_view name : model.checkpoint().names()) {
        values += model.checkpoint().find(name)->numel();
    }
    sparsity.global_sparsity = static_cast<double>(zeros) / static_cast<double>(values);
    return sparsity;
}

void ModelPlan::resolve(const Modifier& modifier, const ObservedModel& model) {
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

bool ModelPlan::unties(const ObservedModel& model) const {
    for (size_t i = 0; i < linears_.size(); ++i) {
        const bool is_changed = linears_[i].is_changed() || rotation_ != nullptr;
        if (is_changed && !model.linears()[i].name.tied_to.empty()) return true;
    }
    return false;
}

QuantizationConfig ModelPlan::config_of_one_scheme(const ObservedModel& model,
                                                   size_t example) const {
    const LinearPlan& one = linears_[example];
    const auto refuse = [&](const std::string& what) {
        throw Error(ErrorKind::bad_data, fmt::format("{}: {}", one.format, what));
    };
    if (kv_cache_scheme()) refuse("its config has no place for a kv_cache_scheme");
    if (recipe_.compresses_zeros) refuse("its config has no place for a sparsity_config");
    QuantizationConfig::Fields fields;
    fields.method = method_of(one.format);
    fields.groups = {{{"Linear"}, *one.scheme}};
    fields.groups.front().scheme.format = one.format;
    bool has_head = false;
    for (size_t i = 0; i < linears_.size(); ++i) {
        const std::string& name = model.linears()[i].name.name;
        if (linears_[i].scheme == nullptr) {
            fields.ignore.push_back(name);
        } else if (*linears_[i].scheme != *one.scheme) {
            refuse(
                fmt::format("its config has one scheme for all linears, but those of {} and {} "
                            "differ",
                            model.linears()[example].name.name, name));
        }
        has_head = has_head || name == "lm_head";
    }
    if (!has_head) fields.ignore.emplace_back("lm_head");
    QuantizationConfig config(std::move(fields));
    const QuantizationConfig read =
        parse_quantization_config(quantization_config_json(config), "quantization_config");
    for (size_t i = 0; i < linears_.size(); ++i) {
        const std::string& name = model.linears()[i].name.name;
        const bool is_dense = linears_[i].scheme == nullptr;
        // Readers expect routers dense, whatever is said.
        if (is_dense == (read.scheme_for(name) == nullptr) || name.ends_with(".gate")) continue;
        refuse(fmt::format("its config has no way to say that {} is {}", name,
                           is_dense ? "left dense" : "quantized"));
    }
    return config;
}

QuantizationConfig ModelPlan::config_by_patterns(const ObservedModel& model) const {
    QuantizationConfig::Fields fields;
    std::set<std::string> ignore;
    for (const Modifier& modifier : recipe_.modifiers) {
        fields.groups.insert(fields.groups.end(), modifier.groups.begin(), modifier.groups.end());
        if (!modifier.groups.empty()) ignore.insert(modifier.ignore.begin(), modifier.ignore.end());
    }
    for (std::string& table : tables_meant(model, fields.groups)) ignore.insert(std::move(table));
    for (QuantizationGroup& group : fields.groups) {
        if (group.scheme.format.empty()) group.scheme.format = inferred_format(group.scheme);
    }
    fields.ignore.assign(ignore.begin(), ignore.end());
    fields.kv_cache_scheme = kv_cache_scheme();
    fields.sparsity = sparsity(model);
    return QuantizationConfig(std::move(fields));
}

// Of modifiers that ignore what others quantize: every linear by its own name.
QuantizationConfig ModelPlan::config_by_names(const ObservedModel& model) const {
    QuantizationConfig::Fields fields;
    fields.kv_cache_scheme = kv_cache_scheme();
    fields.sparsity = sparsity(model);
    for (size_t i = 0; i < linears_.size(); ++i) {
        const std::string& name = model.linears()[i].name.name;
        if (linears_[i].scheme == nullptr) {
            fields.ignore.push_back(name);
            continue;
        }
        QuantizationScheme scheme = *linears_[i].scheme;
        scheme.format = linears_[i].format;
        auto group =
            std::find_if(fields.groups.begin(), fields.groups.end(),
                         [&](const QuantizationGroup& other) { return other.scheme == scheme; });
        if (group == fields.groups.end()) {
            group = fields.groups.insert(group, QuantizationGroup{{}, scheme});
        }
        group->targets.push_back(name);
    }
    return QuantizationConfig(std::move(fields));
}

// As readers will understand it: each linear is what it is meant to be, inputs included.
bool ModelPlan::says_the_same(const QuantizationConfig& config, const ObservedModel& model) const {
    const nlohmann::json written = nlohmann::json::parse(quantization_config_json(config).dump());
    const QuantizationConfig read = parse_quantization_config(written, "quantization_config");
    for (size_t i = 0; i < linears_.size(); ++i) {
        const QuantizationScheme* const said = read.scheme_for(model.linears()[i].name.name);
        const LinearPlan& meant = linears_[i];
        if ((said == nullptr) != (meant.scheme == nullptr)) return false;
        if (said == nullptr) continue;
        const bool is_alike =
            said->format == meant.format &&
            multiplies_alike(said->weights, meant.scheme->weights) &&
            multiplies_alike(said->input_activations, meant.scheme->input_activations);
        if (!is_alike) return false;
    }
    return true;
}

QuantizationConfig ModelPlan::config(const ObservedModel& model) const {
    for (size_t i = 0; i < linears_.size(); ++i) {
        if (linears_[i].scheme == nullptr) continue;
        if (method_of(linears_[i].format) == "compressed-tensors") break;
        return config_of_one_scheme(model, i);
    }
    QuantizationConfig config = config_by_patterns(model);
    if (says_the_same(config, model)) return config;
    config = config_by_names(model);
    if (says_the_same(config, model)) return config;
    throw Error(ErrorKind::bad_data,
                "compressed-tensors has no way to say what this recipe makes of the linears");
}

}  // namespace nvllm::quantize
