// Settings of bitsandbytes, as transformers writes them for models that were loaded so and saved.
#include <fmt/format.h>

#include "lib/checkpoint/quantization_fields.h"

namespace nvllm {
namespace {

constexpr int64_t kBlock = 64;  // unless the file says otherwise beside each matrix

// Older files have a key of the object beside its property.
bool is_loaded(const ConfigFields& section, const char* key, const char* older) {
    const bool said_before = section.boolean(older).value_or(false);
    return section.boolean(key).value_or(said_before);
}

QuantizationArguments four_bits(const ConfigFields& section) {
    const std::string type = section.text("bnb_4bit_quant_type").value_or("fp4");
    if (type != "nf4" && type != "fp4") {
        section.refuse("bnb_4bit_quant_type", fmt::format("nf4 and fp4 are read; {}", kOtherFiles));
    }
    if (section.text("bnb_4bit_quant_storage").value_or("uint8") != "uint8") {
        section.refuse("bnb_4bit_quant_storage",
                       fmt::format("uint8 is read; with other types packed weights look like "
                                   "dense ones; {}",
                                   kOtherFiles));
    }
    // Scales that are quantized too have tensors of their own.
    section.boolean("bnb_4bit_use_double_quant");
    QuantizationArguments weights;
    weights.bits = 4;
    weights.kind = NumberKind::floating;
    weights.strategy = QuantizationStrategy::group;
    weights.group_size = kBlock;
    return weights;
}

}  // namespace

QuantizationConfig::Fields read_bitsandbytes(const ConfigFields& section) {
    const bool has_four = is_loaded(section, "load_in_4bit", "_load_in_4bit");
    const bool has_eight = is_loaded(section, "load_in_8bit", "_load_in_8bit");
    if (has_four == has_eight) {
        section.refuse("load_in_4bit", "either this or load_in_8bit is expected to be true");
    }
    QuantizationConfig::Fields fields;
    fields.method = "bitsandbytes";
    QuantizationScheme scheme;
    if (has_four) {
        scheme.format = "bitsandbytes-4bit";
        scheme.weights = four_bits(section);
    } else {
        scheme.format = "bitsandbytes-8bit";
        scheme.weights.emplace();
        scheme.weights->strategy = QuantizationStrategy::channel;
        fields.notes.push_back(section.file_name() +
                               ": llm_int8_threshold: not used: inputs are not rounded to 8 bits, "
                               "so none are outliers");
    }
    fields.groups.push_back({{"Linear"}, std::move(scheme)});
    for (const std::string& part :
         section.texts("llm_int8_skip_modules").value_or(std::vector<std::string>{})) {
        fields.ignore.push_back(fmt::format("re:.*\\Q{}\\E", part));
    }
    return fields;
}

}  // namespace nvllm
