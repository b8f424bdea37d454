// Calls that are JSON: {"name": ..., "arguments": {...}}, alone or in a list.
#pragma once

#include <string_view>

#include "lib/chat/output/tool_call_format.h"

namespace nvllm::output {

// The calls that `json` (valid JSON) is: an object with a name and with arguments (or parameters),
// which may stand in "function", or a list of such objects. Nothing for everything else.
FoundCalls calls_in_json(std::string_view json);

// The text of a JSON object from a value that is one, or that is a text that holds one, or null.
std::optional<std::string> arguments_object(std::string_view json);

// Reads objects or lists of calls, and `end`, which may be missing where the text ends or where
// another call begins, with `begin`.
Reading<FoundCalls> read_json_calls(TextReader& in, std::string_view begin, std::string_view end);

// Reads an object or a list of calls that begins here, without a marker. Stops at the first key
// that no call has, so that little of a text with brackets in it is held back.
Reading<FoundCalls> read_bare_json_calls(TextReader& in);

// Reads a JSON object that is the arguments of a call, after white space.
Reading<std::optional<std::string>> read_json_arguments(TextReader& in);

}  // namespace nvllm::output
