// Bytes written as tokens: GPT-2's printable characters for bytes, and <0xNN>.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nvllm {

// The character that stands for a byte in byte-level vocabularies, in UTF-8 ("Ġ" for a space).
std::string_view byte_level_character(uint8_t byte);

// Appends each byte's character.
void append_byte_level(std::string& out, std::string_view bytes);

// The bytes a token stands for; a token with any character outside the alphabet stands for itself.
std::string bytes_of_byte_level(std::string_view token);

// "<0x0A>" for 10.
std::string byte_token(uint8_t byte);
// 10 for "<0x0A>"; nothing for other texts.
std::optional<uint8_t> byte_of_token(std::string_view token);

}  // namespace nvllm
