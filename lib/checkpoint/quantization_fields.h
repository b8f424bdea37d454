// The parts of quantization settings as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/quantization_config.h"

namespace nvllm {

// compressed-tensors' argument object. Throws bad_data.
QuantizationArguments read_quantization_arguments(const ConfigFields& fields);
nlohmann::ordered_json quantization_arguments_json(const QuantizationArguments& arguments);

// The whole section, by its quant_method. `unused`: gets the paths of keys of its inner objects
// that were not read. Throw bad_data.
QuantizationConfig::Fields read_compressed_tensors(const ConfigFields& section,
                                                   std::vector<std::string>& unused);
QuantizationConfig::Fields read_awq(const ConfigFields& section);
QuantizationConfig::Fields read_modelopt(const ConfigFields& section,
                                         std::vector<std::string>& unused);
QuantizationConfig::Fields read_auto_round(const ConfigFields& section,
                                           std::vector<std::string>& unused);
QuantizationConfig::Fields read_bitsandbytes(const ConfigFields& section);
QuantizationConfig::Fields read_mxfp4(const ConfigFields& section);
QuantizationConfig::Fields read_gptq(const ConfigFields& section);
QuantizationConfig::Fields read_fp8(const ConfigFields& section);

// Ends refusals of formats: which file of the same model is read.
inline constexpr const char* kOtherFiles =
    "of a model in another format take the file in compressed-tensors, awq (gemm) or gptq";

// Patterns of modules that are left out by a part of their names, under either key of those that
// have it.
std::vector<std::string> read_parts_left_out(const ConfigFields& section);

// The same written. REQUIRES: one group, of this method.
nlohmann::ordered_json awq_json(const QuantizationConfig& config);
nlohmann::ordered_json gptq_json(const QuantizationConfig& config);

}  // namespace nvllm
