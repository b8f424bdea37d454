// Exit codes, messages, broken pipes and stop signals, each in a process of its own.
#include "lib/cli/main_guard.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <stdexcept>

#include "kernels/error.h"
#include "lib/base/error_kinds.h"
#include "tests/lib/base/captured_process.h"

using namespace nvllm;
using nvllm::test::run_captured;

namespace {

nvllm::test::CapturedProcess run_program(const std::function<int()>& program) {
    return run_captured([&] { return run_main("nvllm-x", program); });
}

}  // namespace

TEST_CASE("each kind of error has its exit code and one line on stderr") {
    for (const ErrorKind kind :
         {ErrorKind::usage, ErrorKind::bad_data, ErrorKind::not_found, ErrorKind::unavailable,
          ErrorKind::internal, ErrorKind::cannot_create, ErrorKind::io, ErrorKind::try_again,
          ErrorKind::does_not_fit, ErrorKind::bad_config}) {
        const auto result = run_program([&]() -> int { throw Error(kind, "it went wrong"); });
        CHECK(result.exit_code == exit_code_for(kind));
        CHECK(result.output == "nvllm-x: error: it went wrong\n");
    }
}

TEST_CASE("other endings") {
    CHECK(run_program([] { return 3; }).exit_code == 3);
    CHECK(run_program([] { return 0; }).output == "");
    CHECK(run_program([]() -> int { throw std::bad_alloc(); }).exit_code == 77);
    const auto other = run_program([]() -> int { throw std::runtime_error("huh"); });
    CHECK(other.exit_code == 70);
    CHECK(other.output == "nvllm-x: error: unexpected: huh\n");
}

TEST_CASE("a reader of stdout that went away ends the program quietly") {
    const auto result = run_program([] {
        int ends[2];
        if (::pipe(ends) != 0) return 9;
        ::dup2(ends[1], STDOUT_FILENO);
        ::close(ends[0]);
        ::close(ends[1]);
        for (int i = 0; i < 1000; ++i) write_output("some text\n");
        return 8;
    });
    CHECK(result.exit_code == 0);
    CHECK(result.output == "");
}

TEST_CASE("numbers of closed standard descriptors are not given to other files") {
    const auto result = run_captured([] {
        for (int number = 0; number < 3; ++number) ::close(number);
        return run_main("nvllm-x", [] {
            const int opened = ::open("/dev/null", O_WRONLY);
            const bool is_closed =
                ::write(STDOUT_FILENO, "x", 1) < 0 && ::write(STDERR_FILENO, "x", 1) < 0;
            return opened > STDERR_FILENO && is_closed ? 5 : 1;
        });
    });
    CHECK(result.exit_code == 5);
}

TEST_CASE("a full disk is an error") {
    const auto result = run_program([] {
        if (std::freopen("/dev/full", "w", stdout) == nullptr) return 9;
        write_output("some text\n");
        return 8;
    });
    CHECK(result.exit_code == 74);
    CHECK(result.output.find("standard output: cannot write") != std::string::npos);
}

TEST_CASE("stop signals set a flag; the second one ends the process") {
    for (const int signal : {SIGINT, SIGTERM}) {
        const auto once = run_program([&] {
            watch_stop_signals();
            if (stop_signal()) return 1;
            ::raise(signal);
            return stop_signal() ? exit_code_for_signal(*stop_signal()) : 2;
        });
        CHECK(once.exit_code == (signal == SIGINT ? 130 : 143));
        const auto twice = run_program([&] {
            watch_stop_signals();
            ::raise(signal);
            ::raise(signal);
            return 0;
        });
        CHECK(twice.exit_code == 128 + signal);
    }
}
