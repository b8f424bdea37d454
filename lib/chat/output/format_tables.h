// The tables of formats: names, what is said of them, and how each is read.
#pragma once

#include "lib/chat/output/output_parser.h"
#include "lib/chat/output/reasoning_split.h"
#include "lib/chat/output/tool_call_format.h"

namespace nvllm::output {

struct ToolFormatEntry {
    OutputFormatRow row;
    ToolCallFormat (*format)();  // null: harmony, where messages say what they are
};

struct ReasoningFormatEntry {
    OutputFormatRow row;
    ReasoningTags tags;  // none: harmony
};

const std::vector<ToolFormatEntry>& tool_format_entries();
const std::vector<ReasoningFormatEntry>& reasoning_format_entries();

// The entry of that name, of an alias its format's; null for an unknown name.
const ToolFormatEntry* find_tool_format(std::string_view name);
const ReasoningFormatEntry* find_reasoning_format(std::string_view name);

}  // namespace nvllm::output
