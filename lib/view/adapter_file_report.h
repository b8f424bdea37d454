// What a LoRA adapter is, from its two files.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/checkpoint/adapter/adapter_file.h"

namespace nvllm::view {

// `lists_modules`: a row for each.
std::string adapter_file_text(const AdapterFile& adapter, bool lists_modules);
// "nvllm-inspect.adapter/1".
nlohmann::ordered_json adapter_file_json(const AdapterFile& adapter, bool lists_modules);

}  // namespace nvllm::view
