// The settings of a config.json's text part, where the model has others for pictures or sound.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace nvllm {

// Those of text_config, with what the whole model says for all of its parts; the document itself
// where there is no text_config.
nlohmann::json text_settings(const nlohmann::json& document);

// The object whose keys are the text part's own.
const nlohmann::json& text_section(const nlohmann::json& document);

// Whether a key next to the text part's is about pictures or sound, by its name.
bool is_of_other_part(std::string_view key);

// "vision_config and audio_config": the other parts that the file describes; empty: none.
std::string other_parts(const nlohmann::json& document);

}  // namespace nvllm
