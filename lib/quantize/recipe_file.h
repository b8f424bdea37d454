// Recipes as YAML in llm-compressor's shape: stages of modifiers with their fields.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lib/quantize/recipe.h"

namespace nvllm::quantize {

struct ReadRecipe {
    Recipe recipe;
    std::vector<std::string> notes;  // what was read and is not heeded
};

// Throws not_found, io; bad_data that names file, line, what is wrong, and the nearest known name.
ReadRecipe read_recipe_file(const std::filesystem::path& file);
ReadRecipe parse_recipe(const std::string& yaml, const std::string& source_name);

}  // namespace nvllm::quantize
