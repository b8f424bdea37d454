// Finding, reading and writing quantization settings.
#include "lib/checkpoint/quantization_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/quantization_fields.h"
#include "lib/checkpoint/quantization_keys.h"
#include "lib/checkpoint/target_matcher.h"

namespace nvllm {
namespace {

using Json = nlohmann::json;
constexpr std::string_view kTwoOfFour = "sparse-24-bitmask";
constexpr size_t kMaxFileWithSettings = size_t{16} << 20;

Json read_object(const std::filesystem::path& path) {
    return parse_json(read_file(path, kMaxFileWithSettings), path.string());
}

// Models of text and pictures have the settings next to those of the text part, or in them.
const Json* find_section(const Json& config) {
    if (!config.is_object()) return nullptr;
    for (const char* key : {"quantization_config", "compression_config"}) {
        const auto found = config.find(key);
        if (found != config.end() && !found->is_null()) return &*found;
    }
    const auto text = config.find("text_config");
    return text == config.end() ? nullptr : find_section(*text);
}

}  // namespace

QuantizationConfig::QuantizationConfig(Fields fields) : fields_(std::move(fields)) {
    std::vector<std::vector<std::string>> targets;
    for (QuantizationGroup& group : fields_.groups) {
        targets.push_back(group.targets);
        if (group.scheme.format.empty() && group.scheme.weights) {
            group.scheme.format = inferred_format(group.scheme);
        }
    }
    matcher_ = std::make_shared<const TargetMatcher>(targets, fields_.ignore);
    if (fields_.sparsity && fields_.sparsity->format == kTwoOfFour) {
        targets = {fields_.sparsity->targets};
        sparse_ = std::make_shared<const TargetMatcher>(targets, fields_.sparsity->ignore);
    }
}

const QuantizationScheme* QuantizationConfig::scheme_for(std::string_view linear_name,
                                                         std::string_view class_name) const {
    const std::optional<size_t> group = matcher_->group_of(linear_name, class_name);
    if (!group || !fields_.groups[*group].scheme.weights) return nullptr;
    return &fields_.groups[*group].scheme;
}

bool QuantizationConfig::keeps_two_of_four(std::string_view linear_name) const {
    return sparse_ != nullptr && sparse_->group_of(linear_name).has_value();
}

bool is_float8_cache(const QuantizationArguments& arguments) {
    QuantizationArguments like = float8_cache_scheme();
    like.range_share = arguments.range_share;
    return like == arguments;
}

std::string QuantizationConfig::format() const {
    std::string format;
    for (const QuantizationGroup& group : fields_.groups) {
        if (!group.scheme.weights) continue;
        if (!format.empty() && format != group.scheme.format) return "mixed-precision";
        format = group.scheme.format;
    }
    return format.empty() ? "dense" : format;
}

QuantizationConfig parse_quantization_config(const Json& section, const std::string& source_name) {
    const ConfigFields fields(section, source_name);
    const std::string method = fields.text("quant_method").value_or("compressed-tensors");
    QuantizationConfig::Fields read;
    std::vector<std::string> unused;
    if (method == "compressed-tensors" || method == "sparseml") {
        read = read_compressed_tensors(fields, unused);
        note_unused(fields, QuantizationObject::compressed_tensors, "", unused);
    } else if (method == "awq") {
        read = read_awq(fields);
        note_unused(fields, QuantizationObject::awq, "", unused);
    } else if (method == "gptq") {
        read = read_gptq(fields);
        note_unused(fields, QuantizationObject::gptq, "", unused);
    } else if (method == "fp8") {
        read = read_fp8(fields);
        note_unused(fields, QuantizationObject::fp8, "", unused);
    } else if (method == "mxfp4") {
        read = read_mxfp4(fields);
        note_unused(fields, QuantizationObject::mxfp4, "", unused);
    } else if (method == "modelopt" || method == "modelopt_fp4") {
        read = read_modelopt(fields, unused);
        note_unused(fields, QuantizationObject::modelopt, "", unused);
    } else if (method == "auto-round" || method == "auto_round" || method == "intel/auto-round") {
        read = read_auto_round(fields, unused);
        note_unused(fields, QuantizationObject::auto_round, "", unused);
    } else if (method == "bitsandbytes") {
        read = read_bitsandbytes(fields);
        note_unused(fields, QuantizationObject::bitsandbytes, "", unused);
    } else {
        fields.refuse("quant_method",
                      fmt::format("methods that can be read are compressed-tensors, awq, gptq, "
                                  "auto-round, bitsandbytes, fp8, mxfp4 and modelopt; {}",
                                  kOtherFiles));
    }
    read.unused_keys = std::move(unused);
    return QuantizationConfig(std::move(read));
}

std::optional<QuantizationConfig> read_quantization_config(const std::filesystem::path& directory) {
    const std::filesystem::path path = directory / "config.json";
    const Json config = read_object(path);
    if (const Json* section = find_section(config)) {
        return parse_quantization_config(*section, path.string() + ": quantization_config");
    }
    // Files of AutoGPTQ and ModelOpt, from before configs had the section.
    for (const auto& [file, method] : {std::pair("quantize_config.json", "gptq"),
                                       std::pair("hf_quant_config.json", "modelopt")}) {
        const std::filesystem::path own_file = directory / file;
        if (!std::filesystem::exists(own_file)) continue;
        Json section = read_object(own_file);
        if (section.is_object() && !section.contains("quant_method")) {
            section["quant_method"] = method;
        }
        return parse_quantization_config(section, own_file.string());
    }
    return std::nullopt;
}

std::vector<std::string> quantization_notes(const std::filesystem::path& directory) {
    try {
        const std::optional<QuantizationConfig> config = read_quantization_config(directory);
        if (!config) return {};
        std::vector<std::string> notes = config->notes();
        const std::string where = (directory / "config.json").string() + ": quantization_config";
        const std::string unused = unused_keys_note(where, config->unused_keys());
        if (!unused.empty()) notes.push_back(unused);
        return notes;
    } catch (const Error&) {
        return {};  // the loader reports the fault
    }
}

nlohmann::ordered_json quantization_config_json(const QuantizationConfig& config) {
    if (config.method() == "awq") return awq_json(config);
    if (config.method() == "gptq") return gptq_json(config);
    NVLLM_CHECK(config.method() == "compressed-tensors", "fp8's settings are only read");
    nlohmann::ordered_json json;
    json["quant_method"] = config.method();
    json["format"] = config.format();
    json["quantization_status"] = "compressed";
    json["config_groups"] = nlohmann::ordered_json::object();
    const auto operand = [](const std::optional<QuantizationArguments>& arguments) {
        return arguments ? quantization_arguments_json(*arguments) : nlohmann::ordered_json();
    };
    for (size_t i = 0; i < config.groups().size(); ++i) {
        const QuantizationGroup& group = config.groups()[i];
        nlohmann::ordered_json& row = json["config_groups"][fmt::format("group_{}", i)];
        row["targets"] = group.targets;
        row["weights"] = operand(group.scheme.weights);
        row["input_activations"] = operand(group.scheme.input_activations);
        row["output_activations"] = operand(group.scheme.output_activations);
        row["format"] = group.scheme.format;
    }
    json["ignore"] = config.ignore();
    json["kv_cache_scheme"] = operand(config.kv_cache_scheme());
    json["global_compression_ratio"] = nullptr;
    if (const auto& sparsity = config.sparsity()) {
        json["sparsity_config"] = {{"format", sparsity->format},
                                   {"sparsity_structure", sparsity->structure},
                                   {"global_sparsity", sparsity->global_sparsity},
                                   {"targets", sparsity->targets},
                                   {"ignore", sparsity->ignore}};
    }
    return json;
}

}  // namespace nvllm
