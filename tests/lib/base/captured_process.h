// Runs a function in a child process with its output caught: for what must end or write past the
// test.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <string>

namespace nvllm::test {

struct CapturedProcess {
    int exit_code = 0;   // 128 + signal when a signal ended it
    std::string output;  // stderr
};

// The child's exit code is the function's.
inline CapturedProcess run_captured(const std::function<int()>& function) {
    std::array<int, 2> pipe_ends{};
    if (::pipe(pipe_ends.data()) != 0) return {};
    std::fflush(nullptr);  // or the child would write it once more
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(pipe_ends[1], STDERR_FILENO);
        ::close(pipe_ends[0]);
        ::close(pipe_ends[1]);
        ::_exit(function());
    }
    ::close(pipe_ends[1]);
    CapturedProcess result;
    std::array<char, 4096> buffer;
    for (ssize_t got = 0; (got = ::read(pipe_ends[0], buffer.data(), buffer.size())) > 0;) {
        result.output.append(buffer.data(), static_cast<size_t>(got));
    }
    ::close(pipe_ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

}  // namespace nvllm::test
