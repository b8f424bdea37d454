// The search for calls in the content: the one machine that all formats with markers share.
#pragma once

#include "lib/chat/output/answer.h"
#include "lib/chat/output/tool_call_format.h"

namespace nvllm::output {

// Reads to the end of the text. Gives `answer` every whole call, and all other text as content.
// The references must outlive the reading.
Reading<bool> read_content_and_calls(TextReader& in, const ToolCallFormat& format,
                                     const ParameterTypes& types, Answer& answer);

}  // namespace nvllm::output
