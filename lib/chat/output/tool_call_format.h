// What a tool format is to the machine: the markers at which a call may begin, and how to read on
// from there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/output/parameter_types.h"
#include "lib/chat/output/text_reader.h"

namespace nvllm::output {

struct FoundCall {
    std::string id = {};
    std::string name = {};
    std::string arguments = {};  // the text of a JSON object
};
// Nothing where the text holds no whole call; then it stays text.
using FoundCalls = std::optional<std::vector<FoundCall>>;

struct ToolCallFormat {
    // Markers around several calls, if the format has them, and before each one.
    std::vector<std::string_view> section_begins = {};
    std::vector<std::string_view> section_ends = {};
    std::vector<std::string_view> call_begins = {};
    // As call_begins, but only where the content begins.
    std::vector<std::string_view> first_call_begins = {};
    // What may stand between two calls, besides white space.
    std::string_view separators = {};
    // A call is one only in a section.
    bool only_in_section = false;
    // Reads from the marker on, which comes next in the text. What it has read is the calls'.
    Reading<FoundCalls> (*read_calls)(TextReader& in, const ParameterTypes& types) = nullptr;
};

}  // namespace nvllm::output
