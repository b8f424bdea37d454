// Questions to the loader, answered instead of thrown.
#include "lib/engine/known_models.h"

#include <algorithm>

#include "kernels/error.h"
#include "lib/model/loader.h"
#include "lib/model/registry.h"

namespace nvllm {

std::vector<std::string> known_architectures() {
    std::vector<std::string> names;
    for (const FamilyRow& family : model_families()) names.emplace_back(family.architecture);
    return names;
}

std::optional<Fault> find_obstacle(const std::filesystem::path& directory) {
    try {
        outline_model({.directory = directory});
        return std::nullopt;
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

std::optional<WeightSource::QuantizedLinears> quantized_linears(
    const std::filesystem::path& directory) {
    try {
        const ModelOutline outline = outline_model({.directory = directory});
        if (outline.quantization == nullptr) return std::nullopt;
        return outline.quantized_linears;
    } catch (const Error&) {
        return std::nullopt;
    }
}

WeightSource::QuantizedLinears quantized_linears(const std::filesystem::path& directory,
                                                 const QuantizationConfig& quantization) {
    return outline_quantized(directory, quantization);
}

std::vector<OutlinedTensor> tensors_of_config(const ModelConfig& config) {
    const auto is_it = [&](const FamilyRow& family) {
        return config.architecture == family.architecture;
    };
    if (std::ranges::none_of(model_families(), is_it)) return {};
    return outline_tensors(config);
}

}  // namespace nvllm
