// How a quantized model's linears run on the CPU of this machine, scheme by scheme.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/engine/known_models.h"

namespace nvllm::quantize_tool {

// A line for each scheme, each beginning with `label`.
std::string native_linears_text(const WeightSource::QuantizedLinears& linears,
                                const std::string& label);
// [{"scheme", "native", "dequantized"}].
nlohmann::ordered_json native_linears_json(const WeightSource::QuantizedLinears& linears);

}  // namespace nvllm::quantize_tool
