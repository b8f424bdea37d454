// Standard input line by line, each answered at once on standard output.
#pragma once

#include <functional>
#include <string>

#include "lib/view/line_replies.h"

namespace nvllm::inspect {

// Answers every line and flushes it. The exit code: 0, that of the first fault, or that of a stop
// signal. `skips_blank_lines`: lines of white space get no answer.
int answer_lines(const std::function<view::LineAnswer(const std::string& line)>& answer,
                 bool skips_blank_lines);

}  // namespace nvllm::inspect
