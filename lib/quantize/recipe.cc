// The table of methods, and recipes made of flags.
#include "lib/quantize/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/option_values.h"

namespace nvllm::quantize {
namespace {

constexpr std::array<Method, 7> kMethods = {{
    {"rotation", "turns the residual stream, so that no channel stands out", false, nullptr, false},
    {"rtn", "rounds to nearest", false, "rtn", false},
    {"gptq", "lets later columns make up for the rounding of earlier ones", false, "gptq", true},
    {"awq", "scales channels by what they are given, then rounds", true, "rtn", true},
    {"smoothquant", "moves outliers of activations into the weights", true, nullptr, true},
    {"sparsegpt", "makes weights zero and lets others make up for it", false, "sparsegpt", true},
    {"magnitude", "makes the smallest weights zero", false, "magnitude", false},
}};

QuantizationScheme scheme_of(const RecipeFlags& flags, bool has_order) {
    QuantizationScheme scheme = find_preset_scheme(flags.scheme).scheme;
    if (!scheme.weights) return scheme;
    QuantizationArguments& weights = *scheme.weights;
    if (flags.group_size == "channel") {
        weights.strategy = QuantizationStrategy::channel;
        weights.group_size.reset();
    } else if (!flags.group_size.empty()) {
        const auto size = parse_integer<int64_t>(flags.group_size);
        if (!size || *size < 1) {
            throw Error(ErrorKind::usage,
                        fmt::format("--group-size: '{}' is neither a number nor channel",
                                    flags.group_size));
        }
        if (weights.kind != NumberKind::integer) {
            throw Error(ErrorKind::usage,
                        fmt::format("--group-size: {} has groups of its own", flags.scheme));
        }
        weights.strategy = QuantizationStrategy::group;
        weights.group_size = *size;
    }
    if (!has_order) return scheme;
    if (flags.actorder == "static") weights.actorder = ActivationOrder::weight;
    if (flags.actorder == "group") weights.actorder = ActivationOrder::group;
    if (weights.actorder == ActivationOrder::group &&
        weights.strategy != QuantizationStrategy::group) {
        throw Error(ErrorKind::usage, "--actorder group needs groups (--group-size)");
    }
    return scheme;
}

const char* actorder_name(ActivationOrder order) {
    switch (order) {
        case ActivationOrder::none:
            return "off";
        case ActivationOrder::weight:
            return "static";
        case ActivationOrder::group:
            return "group";
    }
    return "";
}

nlohmann::ordered_json group_json(const QuantizationGroup& group) {
    nlohmann::ordered_json object;
    object["targets"] = group.targets;
    object["format"] = group.scheme.format;
    if (group.scheme.weights) {
        const QuantizationArguments& weights = *group.scheme.weights;
        object["num_bits"] = weights.bits;
        object["type"] = weights.kind == NumberKind::integer ? "int" : "float";
        object["symmetric"] = weights.symmetric;
        object["strategy"] = static_cast<int>(weights.strategy);
        object["group_size"] = weights.group_size.value_or(0);
        object["actorder"] = actorder_name(weights.actorder);
    }
    object["activations"] = group.scheme.input_activations.has_value();
    return object;
}

}  // namespace

std::span<const Method> methods() { return kMethods; }

const Method& find_method(std::string_view name) {
    std::vector<std::string> names;
    for (const Method& method : kMethods) {
        if (method.name == name) return method;
        names.emplace_back(method.name);
    }
    const auto nearest = nearest_name(name, names);
    throw Error(ErrorKind::usage, fmt::format("unknown method '{}'{}; there are: {}", name,
                                              nearest ? "; did you mean " + *nearest + "?" : "",
                                              fmt::join(names, ", ")));
}

MaskStructure parse_mask_structure(const std::string& text) {
    if (text.empty() || text == "unstructured" || text == "0:0") return {};
    const size_t colon = text.find(':');
    const auto zeros = parse_integer<int64_t>(text.substr(0, colon));
    const auto of =
        colon == std::string::npos ? std::nullopt : parse_integer<int64_t>(text.substr(colon + 1));
    if (!zeros || !of || *zeros < 1 || *of <= *zeros || *of > 64) {
        throw Error(ErrorKind::usage,
                    fmt::format("'{}' is no mask structure; 2:4 makes two of four values zero, "
                                "unstructured any",
                                text));
    }
    return {*zeros, *of};
}

Recipe recipe_from_flags(const RecipeFlags& flags) {
    Recipe recipe;
    recipe.ignore_must_match = true;
    bool is_quantized = flags.scheme == "none";
    std::string quantizer;  // the method that rounds
    for (size_t i = flags.methods.size(); i-- > 0;) {
        const Method& method = find_method(flags.methods[i]);
        Modifier modifier;
        modifier.method = method.name;
        modifier.ignore = flags.ignore;
        if (!flags.targets.empty()) modifier.targets = flags.targets;
        modifier.solver = flags.solver;
        modifier.solver.mask = parse_mask_structure(flags.mask_structure);
        modifier.scaling = flags.scaling;
        modifier.seed = flags.seed;
        const Solver* const solver =
            method.solver != nullptr ? find_solver(method.solver) : nullptr;
        const bool rounds = solver != nullptr && solver->quantizes;
        if (rounds && !quantizer.empty() && !method.scales) {
            throw Error(ErrorKind::usage,
                        fmt::format("--method {0}, then {1}: both round, and {1} would undo what "
                                    "{0} did; name one of them, and awq or smoothquant before it "
                                    "to scale channels",
                                    method.name, quantizer));
        }
        if (!is_quantized && rounds) {
            quantizer = method.name;
            const bool has_order = std::string_view(method.solver) == "gptq";
            modifier.groups = {{modifier.targets, scheme_of(flags, has_order)}};
            is_quantized = true;
        }
        recipe.modifiers.insert(recipe.modifiers.begin(), std::move(modifier));
    }
    // What only prepares or prunes is followed by plain rounding.
    if (!is_quantized) {
        RecipeFlags rounding = flags;
        rounding.methods = {"rtn"};
        recipe.modifiers.push_back(recipe_from_flags(rounding).modifiers.front());
    }
    if (flags.float8_cache) recipe.modifiers.back().kv_cache_scheme = float8_cache_scheme();
    return recipe;
}

void set_format(Recipe& recipe, const std::string& format) {
    if (format == "compressed-tensors") return;
    for (Modifier& modifier : recipe.modifiers) {
        for (QuantizationGroup& group : modifier.groups) group.scheme.format = format;
    }
}

std::vector<std::string> settle_actorder(Recipe& recipe) {
    bool is_changed = false;
    for (Modifier& modifier : recipe.modifiers) {
        for (QuantizationGroup& group : modifier.groups) {
            const std::string& format = group.scheme.format;
            const bool has_place = format == "awq" || format.starts_with("gptq");
            if (has_place || !group.scheme.weights ||
                group.scheme.weights->actorder != ActivationOrder::group) {
                continue;
            }
            group.scheme.weights->actorder = ActivationOrder::weight;
            is_changed = true;
        }
    }
    if (!is_changed) return {};
    return {
        "actorder group (true) became static: compressed-tensors no longer reads groups in another "
        "order; --format gptq has a place for them"};
}

nlohmann::ordered_json recipe_json(const Recipe& recipe) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Modifier& modifier : recipe.modifiers) {
        nlohmann::ordered_json object;
        object["method"] = modifier.method;
        object["targets"] = modifier.targets;
        object["ignore"] = modifier.ignore;
        object["groups"] = nlohmann::ordered_json::array();
        for (const QuantizationGroup& group : modifier.groups) {
            object["groups"].push_back(group_json(group));
        }
        object["kv_cache_scheme"] = modifier.kv_cache_scheme ? "fp8" : "none";
        object["block_size"] = modifier.solver.block_size;
        object["dampening_frac"] = modifier.solver.dampening_frac;
        object["sparsity"] = modifier.solver.sparsity;
        object["mask_structure"] =
            fmt::format("{}:{}", modifier.solver.mask.zeros, modifier.solver.mask.of);
        object["smoothing_strength"] = modifier.scaling.smoothing_strength;
        object["n_grid"] = modifier.scaling.grid;
        object["duo_scaling"] = modifier.scaling.duo_scaling;
        object["clip"] = modifier.scaling.clips;
        object["seed"] = modifier.seed;
        object["mappings"] = nlohmann::ordered_json::array();
        for (const ScalingMapping& mapping : modifier.scaling.mappings) {
            object["mappings"].push_back(
                {{"smooth", mapping.smooth}, {"balance", mapping.balance}});
        }
        list.push_back(std::move(object));
    }
    return list;
}

bool needs_calibration(const Recipe& recipe) {
    return std::any_of(
        recipe.modifiers.begin(), recipe.modifiers.end(), [](const Modifier& modifier) {
            return find_method(modifier.method).needs_calibration || modifier.kv_cache_scheme;
        });
}

}  // namespace nvllm::quantize
