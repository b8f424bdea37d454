// Prompts from flags, files or standard input, all in one continuous batch, answered in order.
#pragma once

#include "lib/engine/engine.h"
#include "lib/grammar/grammar_spec.h"
#include "tools/run/run_options.h"

namespace nvllm::run {

// What the flags say of all answers; a line of JSON may say otherwise.
struct AnswerDefaults {
    SamplingParams sampling;
    std::optional<GrammarSpec> grammar;  // what they are held to
    std::string adapter;                 // of prompts that are no lines of JSON; empty: none
    std::string adapter_of_lines;        // of those that name none
};

// Returns the program's exit code: 0, that of the first prompt that failed, or that of the signal
// that stopped it. Throws Error for input that cannot be read.
int run_batch(Engine& engine, const RunOptions& options, const AnswerDefaults& answers,
              bool show_timings);

}  // namespace nvllm::run
