// The model a program uses when none is named.
#pragma once

#include <filesystem>
#include <optional>

namespace nvllm {

// The demo model that comes with the project: below the installation this program belongs to, else
// below the source tree it was built in. Empty when neither has it.
std::optional<std::filesystem::path> bundled_model_directory();

// The same, or an Error{usage} that says how to name a model.
std::filesystem::path require_bundled_model();

}  // namespace nvllm
