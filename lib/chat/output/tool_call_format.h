// What a tool format is to the machine: the markers at which a call may begin, and how to read on
// from there.
#pragma once

#include <string_view>
#include <vector>

#include "lib/chat/output/call_sink.h"
#include "lib/chat/output/parameter_types.h"
#include "lib/chat/output/text_reader.h"

namespace nvllm::output {

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
    // Reads from the marker on, which comes next in the text, and gives the calls to the sink. What
    // it has read is theirs. False where the text holds no whole call; then it stays text.
    Reading<bool> (*read_calls)(TextReader& in, const ParameterTypes& types,
                                CallSink& sink) = nullptr;
};

}  // namespace nvllm::output
