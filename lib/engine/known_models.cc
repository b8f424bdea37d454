// Questions to the loader, answered instead of thrown.
#include "lib/engine/known_models.h"

#include "kernels/error.h"
#include "lib/model/drafts/draft_head_loader.h"
#include "lib/model/loader.h"
#include "lib/model/registry.h"
#include "lib/tokenizer/model_notes.h"

namespace nvllm {

std::vector<std::string> known_architectures() {
    std::vector<std::string> names;
    for (const FamilyRow* family : model_families()) names.emplace_back(family->architecture);
    return names;
}

std::optional<Fault> find_obstacle(const std::filesystem::path& directory) {
    try {
        model_metadata({.directory = directory});
        return std::nullopt;
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

std::optional<DraftHeadConfig> find_draft_head(const std::filesystem::path& directory) {
    const auto layout = find_draft_layout(directory);
    if (!layout || !layout->method) return std::nullopt;
    return read_draft_head_config(directory);
}

std::string next_token_layout(const std::filesystem::path& directory) {
    try {
        return read_draft_head_config(directory).layout.name;
    } catch (const Error&) {
        return {};
    }
}

std::string note_of_weights(const std::filesystem::path& directory) {
    try {
        return model_metadata({.directory = directory}).weights_note;
    } catch (const Error&) {
        return {};
    }
}

std::vector<std::string> notes_of_model(const std::filesystem::path& directory) {
    const ModelConfig config = describe_model_config(directory / "config.json");
    const std::string weights = note_of_weights(directory);
    try {
        return model_notes(config, weights, Tokenizer::load(directory).get(),
                           read_generation_config(directory));
    } catch (const Error& error) {
        std::vector<std::string> notes = model_notes(config, weights, nullptr, {});
        notes.emplace_back(error.what());
        return notes;
    }
}

std::optional<WeightSource::QuantizedLinears> quantized_linears(
    const std::filesystem::path& directory) {
    try {
        const ModelMetadata metadata = model_metadata({.directory = directory});
        if (metadata.quantization == nullptr) return std::nullopt;
        return metadata.quantized_linears;
    } catch (const Error&) {
        return std::nullopt;
    }
}

WeightSource::QuantizedLinears quantized_linears(const std::filesystem::path& directory,
                                                 const QuantizationConfig& quantization) {
    return meta_quantized(directory, quantization);
}

std::vector<MetaTensor> tensors_of_config(const ModelConfig& config) {
    if (!config.refusal.empty()) return {};
    return meta_tensors(config);
}

}  // namespace nvllm
