// What people name as a model and is none that can be read: files and folders of other formats,
// names of other programs; each in a sentence with what to do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace nvllm {

// Why this folder, which has no config.json, is no model: what lies in it instead. Without the
// folder's name.
std::string why_no_model_folder(const std::filesystem::path& directory);

// Why this file is no model. Without the file's name.
std::string why_no_model_file(const std::filesystem::path& file);

// Of a text that names neither a folder nor a file: a URL, a name of Ollama or of llama.cpp.
// Nothing when it may be a name on the Hugging Face hub, or is a path.
std::optional<std::string> why_no_hub_name(const std::string& model);

// What is to be done with weights in a format of their own, by the file's ending: ".gguf", ".onnx",
// ".bin" ...; nothing when its ending says nothing.
std::optional<std::string> about_weight_file(const std::filesystem::path& file);

// Throws not_found with why_no_model_folder() unless the folder has a config.json.
void require_config(const std::filesystem::path& directory);

}  // namespace nvllm
