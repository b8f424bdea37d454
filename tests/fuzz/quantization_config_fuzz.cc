// Bytes as the value of quantization_config: what is accepted names its schemes, answers for any
// linear, and means the same when it is written and read again.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/checkpoint/quantization_config.h"

namespace {

void check_written(const nvllm::QuantizationConfig& config) {
    const std::string text = nvllm::write_json(nvllm::quantization_config_json(config));
    const nvllm::QuantizationConfig again =
        nvllm::parse_quantization_config(nvllm::parse_json(text, "again"), "again");
    if (again.groups() != config.groups() || again.ignore() != config.ignore() ||
        again.kv_cache_scheme() != config.kv_cache_scheme()) {
        __builtin_trap();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::optional<nvllm::QuantizationConfig> config;
    try {
        config = nvllm::parse_quantization_config(
            nvllm::parse_json({reinterpret_cast<const char*>(data), size}, "input"), "input");
        for (const char* linear : {"model.layers.0.mlp.up_proj", "lm_head", ""}) {
            const nvllm::QuantizationScheme* const scheme = config->scheme_for(linear);
            if (scheme != nullptr && nvllm::scheme_name(*scheme).empty()) __builtin_trap();
        }
    } catch (const nvllm::Error&) {  // also of a pattern that takes too long
        return 0;
    }
    if (config->format().empty()) __builtin_trap();
    if (config->method() == "compressed-tensors") check_written(*config);
    return 0;
}
