// The formats of JSON Schema that are held to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nvllm {

// A regular expression that the whole text matches, for engine_pattern. Nothing where the format
// has none.
std::optional<std::string> format_pattern(std::string_view format);

// The same for texts of `least` to `most` characters: empty where every text of the format has such
// a length, else a pattern; nothing where that cannot be said.
std::optional<std::string> format_with_length(std::string_view format, int64_t least,
                                              std::optional<int64_t> most);

// The standard has the format and no pattern says it: it is refused. Other names change nothing.
bool is_refused_format(std::string_view format);

}  // namespace nvllm
