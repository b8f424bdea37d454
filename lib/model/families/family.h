// What a family states of itself, once, in its own file: its name, its configs, how it is made.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "lib/checkpoint/family_defaults.h"
#include "lib/model/families/model_settings.h"
#include "lib/model/model.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

struct LlamaTraits;

struct FamilyRow {
    const char* architecture;  // ModelConfig::text_architecture
    // A model of weights that the source has. Throws bad_data or bad_config.
    std::unique_ptr<Model> (*make)(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings);
    // One for each model_type; the first is the family's own. Their architecture is left out.
    std::span<const FamilyDefaults> configs;
    // Whether a checkpoint may hold this tensor though the model does not read it; null: none.
    bool (*may_ignore)(const std::string& tensor, const ModelConfig& config) = nullptr;
    // Of the block of a next-token layer that its checkpoints have (lib/model/drafts/mtp.h), whose
    // config is that of the layer behind the model's last; null: none is read.
    LlamaTraits (*next_token_traits)(const ModelConfig& config) = nullptr;
};

// A tensor of the layer behind the model's last, which is where DeepSeek's layout has the one that
// proposes tokens.
bool is_behind_last_layer(const std::string& tensor, const ModelConfig& config);
// The same in the layout that has it below "mtp.".
bool is_below_mtp(const std::string& tensor, const ModelConfig& config);

}  // namespace nvllm
