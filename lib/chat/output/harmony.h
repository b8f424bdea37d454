// The messages of gpt-oss (harmony): channels of reasoning, content and calls.
// Source: https://github.com/openai/harmony, docs/format.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/output/call_sink.h"

namespace nvllm::output {

struct HarmonyOptions {
    bool finds_calls = false;                 // else they are content, as the model wrote them
    std::vector<std::string> functions = {};  // names of the request's tools
    std::string prompt_end = {};              // "<|start|>assistant"
    HeldCalls held = {};
};

// Reads to the end of the text. `in_reasoning` is kept up to date. `answer` is the sink's. The
// references must outlive the reading.
Reading<bool> read_harmony(TextReader& in, const HarmonyOptions& options, CallSink& sink,
                           Answer& answer, bool& in_reasoning);

}  // namespace nvllm::output
