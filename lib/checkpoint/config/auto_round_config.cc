// Settings of AutoRound, whose files are GPTQ's or AWQ's layouts with settings for single layers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/checkpoint/quantization_fields.h"
#include "lib/checkpoint/quantization_keys.h"

namespace nvllm {
namespace {

using Fields = QuantizationConfig::Fields;
constexpr size_t kMostLayers = 65536;
constexpr int64_t kDenseBits = 16;  // and more

// The layout: zero points less one in what its exporter calls auto_gptq, as they are in its own.
std::string format_of(const ConfigFields& section) {
    const char* const key = "packing_format";
    const std::string packing = section.text(key).value_or("auto_round:auto_gptq");
    const auto has = [&](const char* part) { return packing.find(part) != std::string::npos; };
    for (const char* const other : {"llm_compressor", "fp8", "fake", "rrq", "mlx"}) {
        if (has(other)) {
            section.refuse(key, fmt::format("layouts of GPTQ and AWQ are read; {}", kOtherFiles));
        }
    }
    if (!packing.starts_with("auto_round") && !packing.starts_with("autoround")) {
        section.refuse(key,
                       "auto_round:auto_gptq, auto_round:auto_awq, auto_round or "
                       "auto_round:gptqmodel is expected");
    }
    if (has("awq")) return "awq";
    return has("gptq") && !has("gptqmodel") ? "gptq" : "gptq_v2";
}

// What all layers have, or one of them where it says something else.
struct LayerSettings {
    int64_t bits = 4;
    int64_t group_size = 128;
    bool symmetric = true;
};

LayerSettings read_settings(const ConfigFields& fields, const LayerSettings& all) {
    LayerSettings settings = all;
    settings.bits = fields.integer("bits", 1, 32).value_or(all.bits);
    settings.group_size =
        fields.integer("group_size", -1, int64_t{1} << 30).value_or(all.group_size);
    settings.symmetric = fields.boolean("sym").value_or(all.symmetric);
    const std::string type = fields.text("data_type").value_or("int");
    if (settings.bits < kDenseBits && type != "int") {
        fields.refuse("data_type", fmt::format("int is read; {}", kOtherFiles));
    }
    for (const char* const key : {"act_bits", "super_bits"}) {
        if (fields.integer(key, 0, 64).value_or(kDenseBits) >= kDenseBits) continue;
        fields.refuse(key,
                      fmt::format("inputs and scales of fewer bits are not read; {}", kOtherFiles));
    }
    return settings;
}

QuantizationScheme scheme_of(const LayerSettings& settings, const std::string& format,
                             const ConfigFields& section) {
    const int64_t bits = settings.bits;
    const bool is_storable =
        format == "awq" ? bits == 4 : bits == 2 || bits == 3 || bits == 4 || bits == 8;
    if (!is_storable) {
        section.refuse("bits", format == "awq" ? "AWQ weights have 4 bits"
                                               : "GPTQ weights have 2, 3, 4 or 8 bits");
    }
    QuantizationScheme scheme;
    scheme.format = format;
    scheme.weights.emplace();
    scheme.weights->bits = static_cast<int>(bits);
    scheme.weights->symmetric = settings.symmetric;
    scheme.weights->strategy =
        settings.group_size > 0 ? QuantizationStrategy::group : QuantizationStrategy::channel;
    if (settings.group_size > 0) scheme.weights->group_size = settings.group_size;
    return scheme;
}

// Whether a key is the name of a layer: plain text with the number of a block in it, or the head's.
bool is_layer_name(const std::string& key) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto is_plain = [&](char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
               c == '.';
    };
    if (!std::all_of(key.begin(), key.end(), is_plain)) return false;
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
        const size_t next = key.find('.', dot + 1);
        if (next == std::string::npos || next == dot + 1) continue;
        if (std::all_of(key.begin() + static_cast<std::ptrdiff_t>(dot) + 1,
                        key.begin() + static_cast<std::ptrdiff_t>(next), is_digit)) {
            return true;
        }
    }
    return key == "lm_head";
}

// All other keys are regular expressions that are looked for anywhere in a name.
std::string target_of(const std::string& key) {
    return is_layer_name(key) ? key : fmt::format("re:.*(?:{})", key);
}

void read_layers(const ConfigFields& section, const LayerSettings& all, const std::string& format,
                 Fields& read, std::vector<std::string>& unused) {
    const auto layers = section.object("extra_config");
    if (!layers) return;
    if (layers->json().size() > kMostLayers) {
        section.refuse("extra_config", fmt::format("at most {} layers are read", kMostLayers));
    }
    for (const auto& [name, value] : layers->json().items()) {
        const auto layer = layers->object(name.c_str());
        if (!layer) continue;
        const LayerSettings settings = read_settings(*layer, all);
        note_unused(*layer, QuantizationObject::auto_round, "extra_config." + name, unused);
        if (settings.bits >= kDenseBits) {
            read.ignore.push_back(target_of(name));
            continue;
        }
        const QuantizationScheme scheme = scheme_of(settings, format, *layer);
        const auto found = std::find_if(read.groups.begin(), read.groups.end(),
                                        [&](const auto& group) { return group.scheme == scheme; });
        if (found == read.groups.end()) {
            read.groups.push_back({{target_of(name)}, scheme});
        } else {
            found->targets.push_back(target_of(name));
        }
    }
}

}  // namespace

Fields read_auto_round(const ConfigFields& section, std::vector<std::string>& unused) {
    const std::string format = format_of(section);
    const LayerSettings all = read_settings(section, {});
    Fields read;
    read.method = "auto-round";
    read.groups.push_back({{"Linear"}, scheme_of(all, format, section)});
    read_layers(section, all, format, read, unused);
    const auto layers = section.object("extra_config");
    if (!layers || !layers->json().contains("lm_head")) read.ignore.emplace_back("lm_head");
    for (std::string& part : read_parts_left_out(section)) read.ignore.push_back(std::move(part));
    return read;
}

}  // namespace nvllm
