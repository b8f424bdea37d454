// Keys of quantization settings that change no output, of all writers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/base/unused_keys.h"
#include "lib/checkpoint/config_fields.h"

namespace nvllm {

// An object of quantization settings: of each method the whole section, of compressed-tensors its
// inner objects too.
enum class QuantizationObject : uint8_t {
    compressed_tensors,
    group,      // of config_groups
    arguments,  // of weights, of activations, of keys and values
    sparsity,   // sparsity_config
    awq,
    gptq,
    fp8,
    mxfp4,
    modelopt,
    auto_round,  // extra_config's objects too
    bitsandbytes,
};

std::span<const HarmlessKey> harmless_keys(QuantizationObject object);

// Appends "PATH.KEY" of each key of `fields` that was not asked for and is not harmless. `path` is
// empty for the section itself.
void note_unused(const ConfigFields& fields, QuantizationObject object, const std::string& path,
                 std::vector<std::string>& unused);

}  // namespace nvllm
