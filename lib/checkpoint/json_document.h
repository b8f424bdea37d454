// JSON that came from outside: size and depth are limited before anything is built from it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace nvllm {

constexpr int kMaxJsonDepth = 64;

// The document `text` holds. Throws bad_data naming `file_name` and the byte where it stops being JSON, or where it nests
// deeper than kMaxJsonDepth.
nlohmann::json parse_json_document(std::string_view text, const std::string& file_name);

// `text` (from a file) as it may stand in a message: quoted, cut to 80 bytes, control characters and broken UTF-8 escaped.
std::string quoted_for_message(std::string_view text);

}  // namespace nvllm
