// Native and dequantized linears, for people and as JSON.
#include "tools/quantize/native_linears.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace nvllm::quantize_tool {

std::string native_linears_text(const WeightSource::QuantizedLinears& linears,
                                const std::string& label) {
    std::string text;
    for (const auto& [scheme, counts] : linears.by_scheme) {
        std::string how;
        if (counts.native > 0) how = fmt::format("{} linears run natively", counts.native);
        if (counts.widened > 0) {
            how += fmt::format("{}{} linears are dequantized when they are loaded",
                               how.empty() ? "" : ", ", counts.widened);
        }
        text += fmt::format("{}{}: {} on this machine's CPU\n", label, scheme, how);
    }
    return text;
}

nlohmann::ordered_json native_linears_json(const WeightSource::QuantizedLinears& linears) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [scheme, counts] : linears.by_scheme) {
        list.push_back(
            {{"scheme", scheme}, {"native", counts.native}, {"dequantized", counts.widened}});
    }
    return list;
}

}  // namespace nvllm::quantize_tool
