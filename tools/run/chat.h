// A conversation in the terminal: line editing and history, streamed answers, a few commands.
#pragma once

#include <optional>
#include <string>

#include "lib/engine/engine.h"

namespace nvllm::run {

struct ChatOptions {
    SamplingParams sampling;
    std::optional<std::string> system_prompt;
    bool show_timings = false;
    bool allow_special_in_messages = false;
};

// Talks until Ctrl-D or /exit. Ctrl-C stops the answer that is being written, or clears the line
// that is being typed. Throws bad_data when the model has no usable chat template.
void chat(Engine& engine, const ChatOptions& options);

}  // namespace nvllm::run
