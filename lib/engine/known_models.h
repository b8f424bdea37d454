// The models that an engine can run, for programs that only inspect models.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/draft_head_config.h"
#include "lib/checkpoint/model_config.h"
#include "lib/model/registry.h"  // config.json of all families, for tools
#include "lib/model/weights/meta_weight_source.h"

namespace nvllm {

// The architectures that config.json may name.
std::vector<std::string> known_architectures();

// Why an engine would not load the model of this directory, from its config and the headers of its
// weights; nothing when it would, or would but for weights that are not there.
std::optional<Fault> find_obstacle(const std::filesystem::path& directory);

// The config of the draft head that the directory holds; nothing where it holds none, or one in a
// layout that is not read. Throws bad_data for a broken one.
std::optional<DraftHeadConfig> find_draft_head(const std::filesystem::path& directory);

// The layout of the next-token layer that the directory's model has for drafts; empty: it has none
// that is read.
std::string next_token_layout(const std::filesystem::path& directory);

// What its files say and an engine would not heed; as far as they can be read, nothing is thrown.
std::vector<std::string> notes_of_model(const std::filesystem::path& directory);
// The same of its weights alone, as the engine would load them; empty: none.
std::string note_of_weights(const std::filesystem::path& directory);

// How the quantized linears of this directory's model would run on the CPU; nothing where its
// weights are dense or it would not load.
std::optional<WeightSource::QuantizedLinears> quantized_linears(
    const std::filesystem::path& directory);
// The same if they were quantized so. Throws not_found or bad_data.
WeightSource::QuantizedLinears quantized_linears(const std::filesystem::path& directory,
                                                 const QuantizationConfig& quantization);

// The tensors that a model of this config consists of, in the config's own type; none when the
// architecture is not known.
std::vector<MetaTensor> tensors_of_config(const ModelConfig& config);

}  // namespace nvllm
