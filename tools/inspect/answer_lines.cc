// The loop over standard input.
#include "tools/inspect/answer_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "lib/base/error_kinds.h"
#include "lib/base/line_reader.h"
#include "lib/cli/main_guard.h"

namespace nvllm::inspect {

int answer_lines(const std::function<view::LineAnswer(const std::string& line)>& answer,
                 bool skips_blank_lines) {
    watch_stop_signals();
    LineReader reader(STDIN_FILENO, "standard input");
    const auto stopped = [] { return stop_signal().has_value(); };
    std::optional<ErrorKind> first_fault;
    int64_t number = 0;
    int64_t num_faults = 0;
    while (const auto line = reader.next(stopped)) {
        ++number;
        if (skips_blank_lines && line->find_first_not_of(" \t") == std::string::npos) continue;
        const view::LineAnswer answered = answer(*line);
        write_output(answered.json + "\n");
        if (!answered.fault) continue;
        if (!first_fault) first_fault = answered.fault;
        ++num_faults;
    }
    if (const auto signal = stop_signal()) return exit_code_for_signal(*signal);
    if (!first_fault) return 0;
    fmt::print(stderr, "nvllm-inspect: error: {} of {} lines could not be answered\n", num_faults,
               number);
    return exit_code_for(*first_fault);
}

}  // namespace nvllm::inspect
