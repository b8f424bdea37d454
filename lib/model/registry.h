// The table of model families: an architecture's name and what makes such a model.
#pragma once

#include <memory>
#include <span>

#include "lib/model/families/decoder.h"

namespace nvllm {

struct FamilyRow {
    const char* architecture;  // ModelConfig::text_architecture
    std::unique_ptr<Model> (*make)(const ModelConfig& config, WeightSource& source,
                                   const ModelSettings& settings);
};

std::span<const FamilyRow> model_families();

// Throws bad_data with the config's refusal.
const FamilyRow& family_of(const ModelConfig& config);

}  // namespace nvllm
