// Texts that models wrote, parsed line by line: reasoning, content, tool calls.
#pragma once

#include <map>
#include <string>

#include "lib/chat/output/output_parser.h"
#include "lib/view/line_replies.h"

namespace nvllm::view {

struct OutputLineOptions {
    OutputFormat format = {};
    bool one_character_at_a_time = false;
    std::map<std::string, OfferedTool> known_tools = {};  // for lines that only name them
};

// Tools by name: a list as in a request, or an object with a tool for each name. Throws bad_data.
std::map<std::string, OfferedTool> read_known_tools(std::string_view text,
                                                    const std::string& source_name);

// Answers {"text": ..., "tools": [...], "prompt_end": ...} with {"reasoning": ..., "content": ...,
// "tool_calls": [{"name": ..., "arguments": JSON text}]}. Without a format calls are looked for by
// the line's "format", else as JSON where the line has tools; for harmony by its reasoning format.
LineAnswer output_line(const OutputLineOptions& options, const std::string& line);

}  // namespace nvllm::view
