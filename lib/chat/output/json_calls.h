// Calls that are JSON: {"name": ..., "arguments": {...}}, alone or in a list.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/chat/output/tool_call_format.h"

namespace nvllm::output {

// The text of a JSON object from a value that is one, or that is a text that holds one, or null.
std::optional<std::string> arguments_object(std::string_view json);

// Reads an object that is a call, with a name and with arguments (or parameters), which may stand
// in "function", or a list of such objects. White space may come before it.
Reading<bool> read_calls(TextReader& in, CallSink& sink);

// Reads such objects or lists, and `end`, which may be missing where the text ends or where another
// call begins, with `begin`.
Reading<bool> read_json_calls(TextReader& in, std::string_view begin, std::string_view end,
                              CallSink& sink);

// Reads an object or a list of calls that begins here, without a marker. Stops at the first key
// that no call has, so that little of a text with brackets in it is held back.
Reading<bool> read_bare_json_calls(TextReader& in, CallSink& sink);

// Reads a JSON object, after white space: the arguments of the call that was begun, which then
// ends.
Reading<bool> read_json_arguments(TextReader& in, CallSink& sink);

}  // namespace nvllm::output
