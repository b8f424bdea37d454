// Taking a text part out of its model's config.json.
#include "lib/checkpoint/text_part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

// What a model of several parts says once for all of them.
constexpr std::array kSharedKeys = {
    "architectures", "model_type",   "tie_word_embeddings", "dtype",
    "torch_dtype",   "eos_token_id", "bos_token_id",        "pad_token_id",
    "auto_map",      "quantization", "quantization_config", "compression_config",
};

bool is_true(const nlohmann::json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace

const nlohmann::json& text_section(const nlohmann::json& document) {
    const auto text = document.find("text_config");
    return text != document.end() && text->is_object() ? *text : document;
}

nlohmann::json text_settings(const nlohmann::json& document) {
    const nlohmann::json& text = text_section(document);
    if (&text == &document) return document;
    nlohmann::json settings = text;
    settings.erase("architectures");
    for (const char* key : kSharedKeys) {
        const auto shared = document.find(key);
        if (shared == document.end() || shared->is_null()) continue;
        const auto own = settings.find(key);
        if (own == settings.end() || own->is_null()) settings[key] = *shared;
    }
    // Some files say it of the whole model, some of its text part.
    if (is_true(document, "tie_word_embeddings")) settings["tie_word_embeddings"] = true;
    return settings;
}

bool is_of_other_part(std::string_view key) {
    constexpr std::array<std::string_view, 7> kWords = {"vision", "visual", "image", "img",
                                                        "video",  "audio",  "speech"};
    return std::ranges::any_of(
        kWords, [&](std::string_view word) { return key.find(word) != std::string_view::npos; });
}

std::string other_parts(const nlohmann::json& document) {
    std::vector<std::string> parts;
    for (const auto& [key, value] : document.items()) {
        if (!key.ends_with("_config") || !value.is_object()) continue;
        if (key == "text_config" || key == "quantization_config" || key == "compression_config") {
            continue;
        }
        parts.push_back(quoted_for_message(key));
    }
    return fmt::format("{}", fmt::join(parts, " and "));
}

}  // namespace nvllm
