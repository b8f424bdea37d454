// The table of model families, and config.json as they read it.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/model_config.h"
#include "lib/model/families/family.h"

namespace nvllm {

std::span<const FamilyRow* const> model_families();

// Throws bad_data with the config's refusal.
const FamilyRow& family_of(const ModelConfig& config);

// The configs of all families, each with its architecture.
FamilyTable known_families();

// As the functions of these names in lib/checkpoint/model_config.h, of the families that there are.
ModelConfig read_model_config(const std::filesystem::path& directory);
ModelConfig parse_model_config(const std::string& json, const std::string& file_name);
ModelConfig describe_model_config(const std::filesystem::path& file);

}  // namespace nvllm
