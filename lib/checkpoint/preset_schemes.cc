// The table of schemes that users name.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "kernels/error.h"
#include "lib/base/option_values.h"
#include "lib/checkpoint/quantization_config.h"

namespace nvllm {
namespace {

using Arguments = QuantizationArguments;
using Strategy = QuantizationStrategy;

constexpr int64_t kGroup = 128;
constexpr int64_t kMxGroup = 32;
constexpr int64_t kNvGroup = 16;

Arguments integers(int bits, Strategy strategy) {
    Arguments arguments;
    arguments.bits = bits;
    arguments.strategy = strategy;
    if (strategy == Strategy::group) arguments.group_size = kGroup;
    return arguments;
}

Arguments floats(int bits, Strategy strategy, std::optional<int64_t> group_size = std::nullopt) {
    Arguments arguments = integers(bits, strategy);
    arguments.kind = NumberKind::floating;
    arguments.group_size = group_size;
    return arguments;
}

Arguments mx(int bits) {
    Arguments arguments = floats(bits, Strategy::group, kMxGroup);
    arguments.scales_are_powers_of_two = true;
    return arguments;
}

Arguments dynamic(Arguments arguments, DynamicScales scales = DynamicScales::yes) {
    arguments.dynamic = scales;
    return arguments;
}

Arguments of_all_samples(Arguments arguments) {
    arguments.range_share.reset();
    return arguments;
}

Arguments fp8_block() {
    Arguments arguments = floats(8, Strategy::block);
    arguments.block = QuantizationBlock{128, 128};
    return arguments;
}

PresetScheme preset(std::string name, Arguments weights,
                    std::optional<Arguments> inputs = std::nullopt) {
    return {std::move(name), {"", weights, inputs, std::nullopt}};
}

// vLLM's kernels for inputs of 8 bits and weights of 4 take those packed alone, whatever
// compressed-tensors would infer.
PresetScheme packed(PresetScheme preset) {
    preset.scheme.format = "pack-quantized";
    return preset;
}

// What people write who mean a scheme of another name, and the beginning of what they write.
struct OtherName {
    std::string_view begins;
    const char* meant;
};
constexpr auto kOtherNames = std::to_array<OtherName>({
    {"W8A8_FP8", "FP8 or FP8_DYNAMIC"},
    {"W8A8FP8", "FP8 or FP8_DYNAMIC"},
    {"FP8_E4M3", "FP8 or FP8_DYNAMIC"},
    {"FP8_STATIC", "FP8"},
    {"INT4", "W4A16"},
    {"Q4_", "W4A16 (Q4_... are types of GGUF, which is not written)"},
    {"Q5_", "W5A16 (Q5_... are types of GGUF, which is not written)"},
    {"Q6_", "W6A16 (Q6_... are types of GGUF, which is not written)"},
    {"Q8_", "W8A16 (Q8_... are types of GGUF, which is not written)"},
    {"IQ", "W4A16 (IQ... are types of GGUF, which is not written)"},
});

std::optional<std::string> name_meant(const std::string& wanted,
                                      const std::vector<std::string>& names) {
    for (const OtherName& other : kOtherNames) {
        if (wanted.starts_with(other.begins)) return other.meant;
    }
    return nearest_name(wanted, names);
}

// W2A16 ... W8A16, and integer activations of 4 and 8 bits where the weights have no more.
void add_integers(std::vector<PresetScheme>& schemes) {
    for (int bits = 2; bits <= 8; ++bits) {
        const Arguments weights = integers(bits, Strategy::group);
        schemes.push_back(preset(fmt::format("W{}A16", bits), weights));
        if (bits == 8) continue;
        const auto tokens = [](int count) { return dynamic(integers(count, Strategy::token)); };
        if (bits <= 4) schemes.push_back(preset(fmt::format("W{}A4", bits), weights, tokens(4)));
        schemes.push_back(preset(fmt::format("W{}A8", bits), weights, tokens(8)));
        if (bits == 4) schemes.back() = packed(schemes.back());
    }
    Arguments asymmetric = integers(4, Strategy::group);
    asymmetric.symmetric = false;
    schemes.push_back(preset("W4A16_ASYM", asymmetric));
    for (const char* name : {"W8A8", "INT8"}) {
        schemes.push_back(
            preset(name, integers(8, Strategy::channel), dynamic(integers(8, Strategy::token))));
    }
    schemes.push_back(packed(
        preset("W4AFP8", integers(4, Strategy::group), dynamic(floats(8, Strategy::token)))));
}

std::vector<PresetScheme> make_schemes() {
    std::vector<PresetScheme> schemes;
    add_integers(schemes);
    const Arguments fp4 = floats(4, Strategy::tensor_group, kNvGroup);
    schemes.push_back(
        preset("FP8", floats(8, Strategy::tensor), of_all_samples(floats(8, Strategy::tensor))));
    schemes.push_back(
        preset("FP8_DYNAMIC", floats(8, Strategy::channel), dynamic(floats(8, Strategy::token))));
    schemes.push_back(
        preset("FP8_BLOCK", fp8_block(), dynamic(floats(8, Strategy::group, kGroup))));
    schemes.push_back(preset("NVFP4", fp4, of_all_samples(dynamic(fp4, DynamicScales::local))));
    schemes.push_back(preset("NVFP4A16", fp4));
    schemes.push_back(preset("MXFP4", mx(4), dynamic(mx(4))));
    schemes.push_back(preset("MXFP4A16", mx(4)));
    schemes.push_back(preset("MXFP8", mx(8), dynamic(mx(8))));
    schemes.push_back(preset("MXFP8A16", mx(8)));
    return schemes;
}

// Equal but for the size of groups, and for what leaves no trace in how it is multiplied.
bool is_alike(const std::optional<Arguments>& a, const std::optional<Arguments>& b) {
    if (!a || !b) return a.has_value() == b.has_value();
    Arguments like = *a;
    like.group_size = b->group_size;
    like.block = b->block;
    like.actorder = b->actorder;
    like.range_share = b->range_share;
    return like == *b;
}

}  // namespace

std::string_view inferred_format(const QuantizationScheme& scheme) {
    NVLLM_CHECK(scheme.weights.has_value(), "a format is of quantized weights");
    const Arguments& weights = *scheme.weights;
    if (weights.kind == NumberKind::floating) {
        if (weights.scales_are_powers_of_two) {
            return weights.bits == 4 ? "mxfp4-pack-quantized" : "mxfp8-quantized";
        }
        if (weights.bits == 4) return "nvfp4-pack-quantized";
        return scheme.input_activations ? "float-quantized" : "naive-quantized";
    }
    return scheme.input_activations ? "int-quantized" : "pack-quantized";
}

std::span<const PresetScheme> preset_schemes() {
    static const std::vector<PresetScheme> schemes = make_schemes();
    return schemes;
}

const PresetScheme& find_preset_scheme(std::string_view name) {
    std::string wanted(name);
    for (char& c : wanted) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    std::vector<std::string> names;
    for (const PresetScheme& row : preset_schemes()) {
        if (row.name == wanted) return row;
        names.push_back(row.name);
    }
    const auto nearest = name_meant(wanted, names);
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is no scheme that is known{}; there are {}", name,
                            nearest ? fmt::format(" (did you mean {}?)", *nearest) : "",
                            fmt::join(names, ", ")));
}

std::string scheme_name(const QuantizationScheme& scheme) {
    const auto presets = preset_schemes();
    const auto found =
        std::find_if(presets.begin(), presets.end(), [&](const PresetScheme& preset) {
            return is_alike(scheme.weights, preset.scheme.weights) &&
                   is_alike(scheme.input_activations, preset.scheme.input_activations);
        });
    if (!scheme.weights) return scheme.format;
    const std::optional<int64_t>& group = scheme.weights->group_size;
    const bool is_preset = found != presets.end();
    std::string name =
        is_preset ? found->name : fmt::format("{}, {} bits", scheme.format, scheme.weights->bits);
    const bool is_foreign = !scheme.format.empty() && scheme.format != inferred_format(scheme) &&
                            !(is_preset && scheme.format == found->scheme.format);
    if (is_preset && is_foreign) name = fmt::format("{} ({})", scheme.format, name);
    if (group && (!is_preset || group != found->scheme.weights->group_size)) {
        name += fmt::format(", groups of {}", *group);
    }
    return name;
}

}  // namespace nvllm
