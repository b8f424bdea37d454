// What every program's main() is wrapped in: errors to messages and exit codes, signals to a flag.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

namespace nvllm {

// Runs the program. Its exit code is the function's, or, after printing "<name>: error: <message>"
// on stderr, that of the Error it threw (lib/base/error_kinds.h), 77 for no memory, 70 for any
// other exception. A reader of stdout that went away is no error: the program ends quietly with 0.
// SIGPIPE and SIGXFSZ are ignored from here on, so that writes fail with EPIPE, and with EFBIG at a
// limit on file sizes, instead. Standard descriptors that were closed stay unusable, and no file or
// socket that is opened later takes their numbers.
int run_main(const char* program_name, const std::function<int()>& program);

// Writes to stdout and flushes. Throws BrokenPipe when the reader is gone, Error{io} when writing
// fails otherwise.
void write_output(std::string_view text);

// Thrown by write_output and understood by run_main; deliberately no Error: nothing went wrong.
struct BrokenPipe {};

// From here on, SIGINT and SIGTERM only set what stop_signal() returns. A second signal of the same
// kind ends the process at once.
void watch_stop_signals();

// The signal that asked the program to stop; empty while none has.
std::optional<int> stop_signal();

// The signal was dealt with: stop_signal() is empty again and the next one is watched for. For
// programs in which Ctrl-C stops a piece of work and not the program.
void forget_stop_signal();

// 130 for SIGINT, 143 for SIGTERM.
int exit_code_for_signal(int signal);

}  // namespace nvllm
