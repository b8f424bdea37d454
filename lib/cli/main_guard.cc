// Exit codes, output and stop signals of the programs.
#include "lib/cli/main_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "kernels/error.h"
#include "lib/base/error_kinds.h"
#include "lib/base/utf8.h"
#include "lib/cli/terminal_text.h"

namespace nvllm {
namespace {

volatile std::sig_atomic_t received_signal = 0;

int report(const char* program_name, std::string_view message, ErrorKind kind) {
    // Not fmt::print, which throws when standard error is closed.
    // Names in messages come from files that may hold anything.
    const std::string line =
        fmt::format("{}: error: {}\n", program_name,
                    ::isatty(STDERR_FILENO) != 0 ? shown_on_terminal(message)
                                                 : utf8::with_replacement(message));
    std::fwrite(line.data(), 1, line.size(), stderr);
    return exit_code_for(kind);
}

// Otherwise the log or output could go into a file or connection that gets number 1 or 2.
void keep_standard_descriptors() {
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
        if (::fcntl(number, F_GETFD) >= 0) continue;
        // Reading from the one and writing to the others fails as before.
        const int flags = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (::open("/dev/null", flags) != number) return;
    }
}

// Only what is safe in a signal handler: SA_RESETHAND has put the default action back, so a second
// signal ends the process.
void remember_signal(int signal) { received_signal = signal; }

}  // namespace

int run_main(const char* program_name, const std::function<int()>& program) {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    keep_standard_descriptors();
    try {
        return program();
    } catch (const BrokenPipe&) {
        return 0;
    } catch (const Error& error) {
        return report(program_name, error.what(), error.kind());
    } catch (const std::bad_alloc&) {
        return report(program_name, "out of memory; a smaller context, cache or batch may fit",
                      ErrorKind::does_not_fit);
    } catch (const std::exception& error) {
        return report(program_name, std::string("unexpected: ") + error.what(),
                      ErrorKind::internal);
    }
}

void write_output(std::string_view text) {
    errno = 0;
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (is_written && std::fflush(stdout) == 0) return;
    if (errno == EPIPE) throw BrokenPipe{};
    throw Error(ErrorKind::io,
                std::string("standard output: cannot write: ") + std::strerror(errno));
}

void watch_stop_signals() {
    struct sigaction action {};
    action.sa_handler = remember_signal;
    action.sa_flags = SA_RESETHAND;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
}

std::optional<int> stop_signal() {
    if (received_signal == 0) return std::nullopt;
    return received_signal;
}

void forget_stop_signal() {
    received_signal = 0;
    watch_stop_signals();
}

int exit_code_for_signal(int signal) { return 128 + signal; }

}  // namespace nvllm
