// What the checkpoint of a plan will say of itself, and that readers understand it so.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/error.h"
#include "lib/quantize/linear_plan.h"

namespace nvllm::quantize {
namespace {

// Matrices that are no linears (embeddings) and that a pattern means all the same: readers that
// know more classes than linears would look for their scales.
std::vector<std::string> tables_meant(const HookedModel& model,
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

}  // namespace

std::optional<SparsityConfig> ModelPlan::sparsity(const HookedModel& model) const {
    if (!recipe_.compresses_zeros) return std::nullopt;
    SparsityConfig sparsity;
    sparsity.format = "sparse-24-bitmask";
    sparsity.structure = "2:4";
    sparsity.targets = {"Linear"};
    int64_t zeros = 0, values = 0;
    bool has_head = false;
    for (size_t i = 0; i < linears_.size(); ++i) {
        const LinearSpec& name = model.linears()[i].name;
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

QuantizationConfig ModelPlan::config_of_one_scheme(const HookedModel& model, size_t example) const {
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
        if (is_dense == (read.scheme_for(name) == nullptr) || is_router(name)) continue;
        refuse(fmt::format("its config has no way to say that {} is {}", name,
                           is_dense ? "left dense" : "quantized"));
    }
    return config;
}

QuantizationConfig ModelPlan::config_by_patterns(const HookedModel& model) const {
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
QuantizationConfig ModelPlan::config_by_names(const HookedModel& model) const {
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
bool ModelPlan::says_the_same(const QuantizationConfig& config, const HookedModel& model) const {
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

QuantizationConfig ModelPlan::config(const HookedModel& model) const {
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
