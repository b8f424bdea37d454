// Settings of NVIDIA's ModelOpt: "quantization_config" of its newer files, and
// hf_quant_config.json, where older ones have them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/checkpoint/quantization_fields.h"
#include "lib/checkpoint/quantization_keys.h"

namespace nvllm {
namespace {

using Fields = QuantizationConfig::Fields;

constexpr int64_t kGroupSize = 16;  // of NVFP4

// A name with "*" for any text, and all modules below what it names, as a target.
std::string target_of(const std::string& pattern) {
    std::string expression = "re:";
    for (const char c : pattern) {
        if (c == '*') {
            expression += ".*";
        } else if (std::string_view(".^$|()[]{}+?\\").find(c) != std::string_view::npos) {
            expression += fmt::format("\\{}", c);
        } else {
            expression += c;
        }
    }
    return expression + "(\\..*)?$";
}

QuantizationScheme float8_scheme() {
    QuantizationScheme scheme;
    scheme.weights.emplace();
    scheme.weights->kind = NumberKind::floating;
    scheme.input_activations = scheme.weights;
    scheme.format = "float-quantized";
    return scheme;
}

QuantizationScheme nvfp4_scheme(const ConfigFields& fields) {
    if (fields.integer("group_size", 0, kGroupSize).value_or(kGroupSize) != kGroupSize) {
        fields.refuse("group_size", fmt::format("NVFP4 has groups of {}", kGroupSize));
    }
    QuantizationScheme scheme = find_preset_scheme("NVFP4").scheme;
    scheme.format = "nvfp4-modelopt";
    return scheme;
}

// Keys and values: by a name in older files, by an object in newer ones.
bool has_float8_cache(const ConfigFields& fields) {
    const std::string name = fields.text("kv_cache_quant_algo").value_or("");
    if (!name.empty() && name != "FP8") {
        fields.refuse("kv_cache_quant_algo", "FP8 is read, no other");
    }
    const auto scheme = fields.object("kv_cache_scheme");
    if (!scheme) return !name.empty();
    const bool is_float8 = scheme->integer("num_bits", 1, 32).value_or(8) == 8 &&
                           scheme->text("type").value_or("float") == "float" &&
                           !scheme->boolean("dynamic").value_or(false);
    if (!is_float8) fields.refuse("kv_cache_scheme", "static float8 is read, no other");
    return true;
}

// Newer files describe the algorithm once more, operand by operand.
void check_groups(const ConfigFields& fields, const QuantizationScheme& scheme) {
    const auto groups = fields.object("config_groups");
    if (!groups) return;
    for (const auto& [name, value] : groups->json().items()) {
        const auto group = groups->object(name.c_str());
        for (const char* key : {"weights", "input_activations"}) {
            const auto operand = group ? group->object(key) : std::nullopt;
            if (!operand) continue;
            const bool is_alike =
                operand->integer("num_bits", 1, 32).value_or(0) == scheme.weights->bits &&
                operand->text("type").value_or("float") == "float" &&
                !operand->boolean("dynamic").value_or(false);
            if (is_alike) continue;
            group->refuse(key, fmt::format("in {} it is not what quant_algo says", name));
        }
    }
}

}  // namespace

Fields read_modelopt(const ConfigFields& section, std::vector<std::string>& unused) {
    const auto inner = section.object("quantization");
    const ConfigFields& fields = inner ? *inner : section;
    section.find("producer");  // who made the file
    Fields read;
    read.method = "modelopt";
    const std::string algorithm = fields.text("quant_algo").value_or("");
    QuantizationScheme scheme;
    if (algorithm == "FP8") {
        fields.find("group_size");  // a tensor has one scale
        scheme = float8_scheme();
    } else if (algorithm == "NVFP4") {
        scheme = nvfp4_scheme(fields);
    } else {
        fields.refuse("quant_algo",
                      fmt::format("FP8 and NVFP4 of ModelOpt are read; {}", kOtherFiles));
    }
    check_groups(fields, scheme);
    read.groups.push_back({{"Linear"}, std::move(scheme)});
    for (const char* key : {"exclude_modules", "ignore"}) {
        for (const std::string& name : fields.texts(key).value_or(std::vector<std::string>{})) {
            read.ignore.push_back(target_of(name));
        }
    }
    if (has_float8_cache(fields)) read.kv_cache_scheme = float8_cache_scheme();
    if (inner) note_unused(fields, QuantizationObject::modelopt, "quantization", unused);
    return read;
}

}  // namespace nvllm
