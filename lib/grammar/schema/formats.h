// The formats of JSON Schema that are held to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nvllm {

// Texts of a format.
struct FormatPattern {
    std::string pattern = {};          // that the whole text matches, for engine_pattern
    std::optional<int64_t> most = {};  // characters
};

// Nothing where the format has no pattern.
std::optional<FormatPattern> format_pattern(std::string_view format);

// The standard has the format and no pattern says it: it is refused. Other names change nothing.
bool is_refused_format(std::string_view format);

}  // namespace nvllm
