// A conversation in the terminal: line editing and history, streamed answers, a few commands.
#pragma once

#include <optional>
#include <string>

#include "lib/engine/engine.h"
#include "lib/grammar/grammar_spec.h"

namespace nvllm::run {

struct ChatOptions {
    SamplingParams sampling;
    std::optional<GrammarSpec> grammar;  // what answers are held to
    std::string adapter;                 // empty: the model alone
    std::optional<std::string> system_prompt;
    bool show_timings = false;
    bool allow_special_in_messages = false;
};

// Talks until Ctrl-D or /exit, which is exit code 0, or SIGTERM: 143. Ctrl-C stops the answer that
// is being written, or clears what is being typed. Throws bad_data when the model has no usable
// chat template, usage when several answers are asked for.
int chat(Engine& engine, const ChatOptions& options);

}  // namespace nvllm::run
