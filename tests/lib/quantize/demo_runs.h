// Runs over the bundled model by recipes in YAML.
#pragma once

#include "lib/quantize/pipeline.h"
#include "lib/quantize/recipe_file.h"
#include "tests/lib/quantize/folder.h"

namespace nvllm::test {

inline std::filesystem::path demo_folder() {
    return std::filesystem::path(NVLLM_SOURCE_DIR) / "models" / "demo";
}

inline quantize::PipelineOptions little_run(const std::filesystem::path& output,
                                            const std::filesystem::path& model = demo_folder()) {
    quantize::PipelineOptions options;
    options.model = model;
    options.output = output;
    options.calibration.num_samples = 2;
    options.calibration.max_seq_length = 600;
    options.num_threads = 2;
    return options;
}

inline quantize::Recipe recipe_in(const std::string& yaml) {
    return quantize::parse_recipe(yaml, "recipe.yaml").recipe;
}

// A copy of the bundled model whose files may be changed.
inline void copy_demo(const std::filesystem::path& folder) {
    std::filesystem::copy(demo_folder(), folder, std::filesystem::copy_options::recursive);
}

// Writes 16 bits over the value of this index of a tensor in a model's one file.
inline void overwrite_half(const std::filesystem::path& model, const std::string& tensor,
                           int64_t index, uint16_t bits) {
    const Checkpoint checkpoint = Checkpoint::open(model);
    const auto* const begin = checkpoint.files().front()->bytes().data();
    const auto* const values = checkpoint.find(tensor)->as<std::byte>();
    std::FILE* const file = std::fopen((model / "model.safetensors").c_str(), "r+b");
    std::fseek(file, static_cast<long>(values - begin + index * 2), SEEK_SET);
    std::fwrite(&bits, sizeof(bits), 1, file);
    std::fclose(file);
}

}  // namespace nvllm::test
