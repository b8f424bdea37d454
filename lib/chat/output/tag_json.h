// Parts of xgrammar's structural tags as JSON (its docs/structural_tag, version 0.2.8). Included by
// what writes them only: the JSON library comes with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm::output {

using TagJson = nlohmann::ordered_json;

TagJson sequence(std::vector<TagJson> elements);
TagJson any_of(std::vector<TagJson> elements);
TagJson optional(TagJson content);
void append(std::vector<TagJson>& to, const std::vector<TagJson>& more);

// The text, with its special tokens as tokens.
std::vector<TagJson> literal(std::string_view text, const std::vector<std::string>& special_tokens);
// Any text up to `end`, which is part of it.
std::vector<TagJson> text_until(std::string_view end,
                                const std::vector<std::string>& special_tokens);
// Harmony's message of the channel "analysis", and the beginning of the next message.
TagJson harmony_thought(const std::vector<std::string>& special_tokens);

// {"type": "structural_tag", "format": ...} as text, and back: the format of such a text, null for
// another one.
std::string structural_tag_text(TagJson format);
TagJson format_of_tag(const std::string& text);

}  // namespace nvllm::output
