// The search for calls in the content: the one machine that all formats with markers share.
#pragma once

#include "lib/chat/output/answer.h"
#include "lib/chat/output/tool_call_format.h"

namespace nvllm::output {

// Reads to the end of the text. Gives `sink` every whole call and those that are held, and
// `answer`, which is the sink's, all other text as content. The references must outlive the
// reading.
Reading<bool> read_content_and_calls(TextReader& in, const ToolCallFormat& format,
                                     const ParameterTypes& types, const HeldCalls& held,
                                     CallSink& sink, Answer& answer);

}  // namespace nvllm::output
