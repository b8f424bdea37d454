// Whether a model is there, without reading it.
#pragma once

#include <optional>
#include <string>

#include "lib/base/result.h"

namespace nvllm {

// Why ModelChoice::name cannot be `model`, a folder or a name in the local Hugging Face cache:
// there is none, or it is a file. Empty when there is a folder.
std::optional<Fault> missing_model(const std::string& model);

}  // namespace nvllm
