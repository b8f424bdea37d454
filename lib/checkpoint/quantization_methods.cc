// quantization_config of each method that writes one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lib/checkpoint/quantization_fields.h"
#include "lib/checkpoint/quantization_keys.h"

namespace nvllm {
namespace {

using Json = nlohmann::json;
using Fields = QuantizationConfig::Fields;
constexpr size_t kMaxGroups = 4096;
constexpr int64_t kMaxGroupSize = int64_t{1} << 30;

constexpr std::array<std::string_view, 12> kFormats = {
    "dense",           "fakequant",       "naive-quantized",      "int-quantized",
    "float-quantized", "pack-quantized",  "nvfp4-pack-quantized", "mxfp4-pack-quantized",
    "mxfp8-quantized", "mixed-precision", "sparse-bitmask",       "sparse-24-bitmask"};

// AutoAWQ's names of layouts, and ours of the formats.
struct AwqLayout {
    std::string_view version;
    const char* format;
};
constexpr std::array<AwqLayout, 3> kAwqLayouts = {
    {{"gemm", "awq"}, {"gemv", "awq-gemv"}, {"gemv_fast", "awq-gemv-fast"}}};

std::string read_format(const ConfigFields& fields) {
    const std::string format = fields.text("format").value_or("");
    if (!format.empty() && std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end()) {
        fields.refuse("format",
                      fmt::format("formats that can be read are {}", fmt::join(kFormats, ", ")));
    }
    return format;
}

// "fakequant" and "dense" weights lie there as they were.
std::string format_of_group(const ConfigFields& group, const std::string& of_all,
                            const QuantizationScheme& scheme) {
    std::string format = read_format(group);
    if (format.empty()) format = of_all;
    const bool says_nothing =
        format.empty() || format == "mixed-precision" || format.starts_with("sparse-");
    if (says_nothing) format = scheme.weights ? std::string(inferred_format(scheme)) : "dense";
    return format == "fakequant" ? "dense" : format;
}

// What is passed over in the section's inner objects.
struct PassedOver {
    std::vector<std::string>& unused;
    std::vector<std::string> notes;
};

std::optional<QuantizationArguments> read_operand(const ConfigFields& group,
                                                  const std::string& path, const char* key,
                                                  PassedOver& passed) {
    const std::optional<ConfigFields> operand = group.object(key);
    if (!operand) return std::nullopt;
    const QuantizationArguments arguments = read_quantization_arguments(*operand);
    note_unused(*operand, QuantizationObject::arguments, path + key, passed.unused);
    return arguments;
}

// What would be computed otherwise than the file means is refused, or noted where it would only be
// computed with more precision.
void check_activations(const ConfigFields& fields, const std::string& path,
                       const QuantizationScheme& scheme, PassedOver& passed) {
    if (scheme.output_activations) {
        fields.refuse("output_activations",
                      "outputs of linears that are rounded (output_activations, output_scale) "
                      "cannot be run; quantize the model without them");
    }
    if (!scheme.input_activations) return;
    const QuantizationArguments& inputs = *scheme.input_activations;
    if (inputs.strategy == QuantizationStrategy::attn_head) {
        fields.refuse("input_activations",
                      "attention with a scale for each head (strategy attn_head) cannot be run; "
                      "quantize the model with strategy tensor");
    }
    if (!inputs.symmetric && inputs.dynamic == DynamicScales::no && scheme.weights) {
        fields.refuse("input_activations",
                      "asymmetric inputs with scales in the file (symmetric false, dynamic false: "
                      "input_zero_point) cannot be run; quantize the model with symmetric inputs "
                      "(W8A8)");
    }
    const auto note = [&](const char* what) {
        passed.notes.push_back(
            fmt::format("{}: {}input_activations: {}", fields.file_name(), path, what));
    };
    if (!scheme.weights) {
        note("not used: inputs of what has no quantized weights are not rounded");
    } else if (!inputs.symmetric) {
        note("not used: asymmetric inputs are not rounded");
    } else if (inputs.bits != 4 && inputs.bits != 8) {
        note("not used: only inputs of 4 or 8 bits are rounded");
    }
}

QuantizationGroup read_group(const ConfigFields& fields, const std::string& path,
                             const std::string& format, PassedOver& passed) {
    QuantizationGroup group;
    group.targets = fields.texts("targets").value_or(std::vector<std::string>{"Linear"});
    group.scheme.weights = read_operand(fields, path, "weights", passed);
    group.scheme.input_activations = read_operand(fields, path, "input_activations", passed);
    group.scheme.output_activations = read_operand(fields, path, "output_activations", passed);
    group.scheme.format = format_of_group(fields, format, group.scheme);
    note_unused(fields, QuantizationObject::group, path.substr(0, path.size() - 1), passed.unused);
    check_activations(fields, path, group.scheme, passed);
    return group;
}

// A group may also be the name of a preset with its targets.
QuantizationGroup read_named_group(const ConfigFields& groups, const std::string& name) {
    QuantizationGroup group;
    group.targets = *groups.texts(name.c_str());
    const auto presets = preset_schemes();
    const auto found = std::find_if(presets.begin(), presets.end(),
                                    [&](const PresetScheme& row) { return row.name == name; });
    if (found == presets.end()) groups.refuse(name.c_str(), "no preset scheme has this name");
    group.scheme = found->scheme;
    group.scheme.format = inferred_format(group.scheme);
    return group;
}

std::vector<QuantizationGroup> read_groups(const ConfigFields& section, const std::string& format,
                                           PassedOver& passed) {
    std::vector<QuantizationGroup> result;
    const std::optional<ConfigFields> groups = section.object("config_groups");
    if (!groups) return result;
    if (groups->json().size() > kMaxGroups) {
        section.refuse("config_groups", fmt::format("at most {} groups are read", kMaxGroups));
    }
    for (const auto& [name, value] : groups->json().items()) {
        if (value.is_array()) {
            result.push_back(read_named_group(*groups, name));
            continue;
        }
        const std::optional<ConfigFields> group = groups->object(name.c_str());
        if (!group) continue;
        result.push_back(read_group(*group, "config_groups." + name + ".", format, passed));
    }
    return result;
}

std::optional<SparsityConfig> read_sparsity(const ConfigFields& section, PassedOver& passed) {
    const std::optional<ConfigFields> fields = section.object("sparsity_config");
    if (!fields || fields->json().empty()) return std::nullopt;
    SparsityConfig sparsity;
    sparsity.format = read_format(*fields);
    sparsity.structure = fields->text("sparsity_structure").value_or("");
    sparsity.global_sparsity = fields->number("global_sparsity", 0.0, 1.0).value_or(0.0);
    sparsity.targets = fields->texts("targets").value_or(std::vector<std::string>{});
    sparsity.ignore = fields->texts("ignore").value_or(std::vector<std::string>{});
    note_unused(*fields, QuantizationObject::sparsity, "sparsity_config", passed.unused);
    return sparsity;
}

// Rotations that were multiplied into the weights are there already; those of inputs, outputs,
// queries or cached keys are computed while the model runs.
void check_transforms(const ConfigFields& section) {
    const Json* const transforms = section.find("transform_config");
    if (transforms == nullptr) return;
    const auto refuse = [&](const std::string& what) {
        section.refuse("transform_config",
                       what +
                           "; transforms that are computed while the model runs (QuIP, R3, R4) "
                           "are not supported, those folded into weights are");
    };
    if (!transforms->is_object()) refuse("an object is expected");
    const auto groups = transforms->find("config_groups");
    if (groups == transforms->end() || groups->is_null()) return;
    for (const auto& [name, group] : groups->items()) {
        const auto apply = group.is_object() ? group.find("apply") : group.end();
        if (apply == group.end() || !apply->is_array()) refuse(name + " is no transform");
        for (const Json& one : *apply) {
            const std::string location =
                one.is_object() ? one.value("location", Json()).dump() : "";
            if (location.starts_with("\"weight_")) continue;
            refuse(fmt::format("{} transforms {}", name, location));
        }
    }
}

// Scales of other caches than float8's are stored and not used.
void check_cache_scheme(const ConfigFields& section, const Fields& fields, PassedOver& passed) {
    if (!fields.kv_cache_scheme) return;
    if (fields.kv_cache_scheme->strategy == QuantizationStrategy::attn_head) {
        section.refuse("kv_cache_scheme",
                       "keys and values with a scale for each head (strategy attn_head) cannot be "
                       "run; quantize the model with strategy tensor");
    }
    if (is_float8_cache(*fields.kv_cache_scheme)) return;
    passed.notes.push_back(section.file_name() +
                           ": kv_cache_scheme: not used: only keys and values of float8 with one "
                           "static scale are; --kv-cache-dtype says how they are kept");
}

Fields fields_of(const char* method, QuantizationScheme scheme, const ConfigFields& section) {
    Fields fields;
    fields.method = method;
    fields.groups.push_back({{"Linear"}, std::move(scheme)});
    fields.ignore = read_parts_left_out(section);
    return fields;
}

QuantizationArguments grouped_integers(const ConfigFields& section, int bits, const char* key) {
    QuantizationArguments arguments;
    arguments.bits = bits;
    const int64_t group_size = section.integer(key, -1, kMaxGroupSize).value_or(128);
    arguments.strategy =
        group_size > 0 ? QuantizationStrategy::group : QuantizationStrategy::channel;
    if (group_size > 0) arguments.group_size = group_size;
    return arguments;
}

}  // namespace

// Others than compressed-tensors leave modules out by parts of their names.
std::vector<std::string> read_parts_left_out(const ConfigFields& section) {
    std::vector<std::string> ignore;
    for (const char* key : {"modules_to_not_convert", "ignored_layers"}) {
        for (const std::string& part : section.texts(key).value_or(std::vector<std::string>{})) {
            ignore.push_back(fmt::format("re:.*\\Q{}\\E", part));
        }
    }
    return ignore;
}

Fields read_compressed_tensors(const ConfigFields& section, std::vector<std::string>& unused) {
    Fields fields;
    PassedOver passed{unused, {}};
    const std::string format = read_format(section);
    check_transforms(section);
    fields.groups = read_groups(section, format, passed);
    fields.ignore = section.texts("ignore").value_or(std::vector<std::string>{});
    fields.kv_cache_scheme = read_operand(section, "", "kv_cache_scheme", passed);
    check_cache_scheme(section, fields, passed);
    fields.sparsity = read_sparsity(section, passed);
    fields.notes = std::move(passed.notes);
    return fields;
}

Fields read_awq(const ConfigFields& section) {
    const char* bits_key = section.has("bits") ? "bits" : "w_bit";
    if (section.integer(bits_key, 1, 32).value_or(4) != 4) {
        section.refuse(bits_key, "AWQ weights have 4 bits");
    }
    const char* const version_key = section.has("version") ? "version" : "format";
    std::string version = section.text(version_key).value_or("gemm");
    std::transform(version.begin(), version.end(), version.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const auto layout = std::find_if(kAwqLayouts.begin(), kAwqLayouts.end(),
                                     [&](const AwqLayout& row) { return row.version == version; });
    if (layout == kAwqLayouts.end()) {
        section.refuse(version_key,
                       fmt::format("gemm, gemv and gemv_fast are read; {}", kOtherFiles));
    }
    if (section.text("backend").value_or("") == "llm-awq") {
        section.refuse("backend", fmt::format("llm-awq has a layout of its own; {}", kOtherFiles));
    }
    const char* group_key = section.has("group_size") ? "group_size" : "q_group_size";
    QuantizationScheme scheme;
    scheme.format = layout->format;
    scheme.weights = grouped_integers(section, 4, group_key);
    scheme.weights->symmetric = !section.boolean("zero_point").value_or(true);
    const int64_t group_size = scheme.weights->group_size.value_or(0);
    if (version != "gemm" && group_size != 32 && group_size != 64 && group_size < 128) {
        section.refuse(group_key, version + " has groups of 32, 64, 128 or more");
    }
    Fields fields = fields_of("awq", scheme, section);
    fields.ignore.emplace_back("lm_head");
    return fields;
}

Fields read_gptq(const ConfigFields& section) {
    const int64_t bits = section.integer("bits", 1, 32).value_or(4);
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
        section.refuse("bits", "GPTQ weights have 2, 3, 4 or 8 bits");
    }
    if (section.text("pack_dtype").value_or("int32") != "int32") {
        section.refuse("pack_dtype", "int32 is expected");
    }
    const Json* exceptions = section.find("dynamic");
    if (exceptions != nullptr && !exceptions->empty()) {
        section.refuse("dynamic", "rules for single modules are not supported");
    }
    const char* const version_key =
        section.has("checkpoint_format") ? "checkpoint_format" : "format";
    const std::string version = section.text(version_key).value_or("gptq");
    if (version != "gptq" && version != "gptq_v2") {
        section.refuse(version_key, fmt::format("gptq and gptq_v2 are read; {}", kOtherFiles));
    }
    QuantizationScheme scheme;
    scheme.format = version;
    scheme.weights = grouped_integers(section, static_cast<int>(bits), "group_size");
    scheme.weights->symmetric = section.boolean("sym").value_or(true);
    if (section.boolean("desc_act").value_or(false)) {
        scheme.weights->actorder = ActivationOrder::group;
    }
    Fields fields = fields_of("gptq", scheme, section);
    if (!section.boolean("lm_head").value_or(false)) fields.ignore.emplace_back("lm_head");
    return fields;
}

nlohmann::ordered_json awq_json(const QuantizationConfig& config) {
    const QuantizationArguments& weights = *config.groups().front().scheme.weights;
    return {{"quant_method", "awq"},
            {"bits", weights.bits},
            {"group_size", weights.group_size.value_or(-1)},
            {"zero_point", true},
            {"version", "gemm"},
            {"modules_to_not_convert", config.ignore()}};
}

nlohmann::ordered_json gptq_json(const QuantizationConfig& config) {
    const QuantizationScheme& scheme = config.groups().front().scheme;
    const std::vector<std::string>& ignore = config.ignore();
    return {{"quant_method", "gptq"},
            {"bits", scheme.weights->bits},
            {"group_size", scheme.weights->group_size.value_or(-1)},
            {"desc_act", scheme.weights->actorder == ActivationOrder::group},
            {"static_groups", scheme.weights->actorder == ActivationOrder::weight},
            {"sym", scheme.weights->symmetric},
            {"lm_head", std::find(ignore.begin(), ignore.end(), "lm_head") == ignore.end()},
            {"checkpoint_format", scheme.format},
            {"pack_dtype", "int32"}};
}

Fields read_fp8(const ConfigFields& section) {
    if (section.text("fmt").value_or("e4m3") != "e4m3") {
        section.refuse("fmt", "e4m3 is expected");
    }
    const std::string activations = section.text("activation_scheme").value_or("dynamic");
    if (activations != "dynamic" && activations != "static") {
        section.refuse("activation_scheme", "dynamic or static is expected");
    }
    QuantizationArguments weights;
    weights.kind = NumberKind::floating;
    QuantizationArguments inputs = weights;
    if (activations == "dynamic") inputs.dynamic = DynamicScales::yes;
    QuantizationScheme scheme;
    scheme.format = "float-quantized";
    const std::vector<int64_t> block = section.integers("weight_block_size");
    if (!block.empty()) {
        if (block.size() != 2 || block[0] < 1 || block[1] < 1 || block[0] > kMaxGroupSize ||
            block[1] > kMaxGroupSize || activations != "dynamic") {
            section.refuse("weight_block_size",
                           "two sizes [rows, columns] are expected, with dynamic activations");
        }
        scheme.format = "fp8-block";
        weights.strategy = QuantizationStrategy::block;
        weights.block = QuantizationBlock{block[0], block[1]};
        inputs.strategy = QuantizationStrategy::group;
        inputs.group_size = block[1];
    } else if (activations == "dynamic") {
        inputs.strategy = QuantizationStrategy::token;
    }
    scheme.weights = weights;
    scheme.input_activations = inputs;
    return fields_of("fp8", scheme, section);
}

// Experts alone are quantized; which modules are not says the same again.
Fields read_mxfp4(const ConfigFields& section) {
    section.find("modules_to_not_convert");
    QuantizationScheme scheme = find_preset_scheme("MXFP4A16").scheme;
    scheme.format = inferred_format(scheme);
    Fields fields;
    fields.method = "mxfp4";
    fields.groups.push_back({{"re:.*\\.mlp\\.experts\\..*"}, std::move(scheme)});
    return fields;
}

}  // namespace nvllm
