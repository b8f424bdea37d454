// Texts inside SVG documents.
#pragma once

#include <string>
#include <string_view>

namespace nvllm {

// With & < > " as entities, for elements and attributes. Control characters stay as they are.
std::string svg_escaped(std::string_view text);

}  // namespace nvllm
