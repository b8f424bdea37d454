// Which files an engine reads: the model's folder, and what options put in place of its tokenizer,
// its template and its sampling defaults.
#pragma once

#include <filesystem>
#include <string>

#include "lib/checkpoint/model_config.h"
#include "lib/engine/engine_config.h"

namespace nvllm {

// The folder of config.model.name. Throws as resolve_model_directory() does.
std::filesystem::path model_directory(const EngineConfig& config);

// The folder of config.model.tokenizer, or the model's.
std::filesystem::path tokenizer_directory(const EngineConfig& config,
                                          const std::filesystem::path& model);

// The sampling defaults that config asks for. Of the model's own file only the end tokens count
// when they are not wanted. Throws not_found for a folder without the file, bad_data.
GenerationConfig chosen_generation_config(const EngineConfig& config,
                                          const std::filesystem::path& model);

// The template itself, of a text or of a file that it names; empty for an empty text. Throws
// not_found or io.
std::string read_chat_template(const std::string& given);

// Throws usage unless the checkpoint is quantized by the method that config names.
void check_quantization(const EngineConfig& config, const std::filesystem::path& model);

// All of the above once, and the options of speculation, for programs that check settings before
// they start: throws what an engine would, without reading a weight.
void check_model_choice(const EngineConfig& config);

}  // namespace nvllm
