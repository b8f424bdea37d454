// Python's literals and calls in generated text, as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/chat/output/tool_call_format.h"

namespace nvllm::output {

// A literal (text, number, True, None, list, tuple, dict with texts as keys) as JSON text. JSON's
// own words (true, false, null) are taken as well.
std::optional<std::string> json_of_python(std::string_view text);

// Reads "[name(key=literal, ...), ...]".
Reading<bool> read_python_calls(TextReader& in, CallSink& sink);

}  // namespace nvllm::output
