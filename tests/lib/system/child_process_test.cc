// Programs started beside this one: descriptors, signals, ends.
#include "lib/system/child_process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "lib/system/unix_socket.h"

using namespace nvllm;

namespace {

// No shell, whose child would outlive it and keep what it inherited.
const std::vector<std::string> kSleeper = {"/bin/sleep", "60"};

struct Pipe {
    Pipe() {
        std::array<int, 2> ends{};
        REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
        read_end = OwnedDescriptor(ends[0]);
        write_end = OwnedDescriptor(ends[1]);
    }
    // All of it; nobody else may hold the other end.
    std::string text() {
        write_end.reset();
        std::string text;
        std::array<char, 256> buffer{};
        for (ssize_t got = 0; (got = ::read(read_end.get(), buffer.data(), buffer.size())) > 0;) {
            text.append(buffer.data(), static_cast<size_t>(got));
        }
        return text;
    }
    OwnedDescriptor read_end;
    OwnedDescriptor write_end;
};

std::vector<std::string> shell(const std::string& command) { return {"/bin/sh", "-c", command}; }

}  // namespace

TEST_CASE("a child has its stderr, what was listed, and no other descriptor") {
    // Not closed on exec: the child would have it, were it not for the list.
    const OwnedDescriptor stray(::open("/dev/zero", O_RDONLY));
    REQUIRE(stray.get() > 2);
    Pipe pipe;
    const InheritedDescriptor inherited{pipe.write_end.get(), 3};
    ChildProcess child(
        shell("exec 1>&3; for n in /proc/$$/fd/*; do echo ${n##*/} $(readlink $n); done"),
        {&inherited, 1});
    const std::string text = pipe.text();
    CHECK(child.wait() == 0);
    CAPTURE(text);
    CHECK(text.find("0 /dev/null") != std::string::npos);
    CHECK(text.find("3 pipe:") != std::string::npos);
    CHECK(text.find("/dev/zero") == std::string::npos);
}

TEST_CASE("how a child ended is told in words") {
    ChildProcess leaves(shell("exit 7"), {});
    CHECK(describe_exit(leaves.wait()) == "ended with exit code 7");
    CHECK(describe_exit(leaves.wait()) == "ended with exit code 7");
    leaves.kill();  // long gone: nobody else is struck
    ChildProcess stays(kSleeper, {});
    stays.kill();
    CHECK(describe_exit(stays.wait()) == "killed by signal 9 (Killed)");
}

TEST_CASE("a child that is left behind is killed and waited for") {
    pid_t id = 0;
    {
        const ChildProcess child(kSleeper, {});
        id = child.id();
        CHECK(::kill(id, 0) == 0);
    }
    CHECK(::kill(id, 0) == -1);
}

TEST_CASE("signals to the whole group are the parent's alone when that is asked for") {
    // No shell: some of them unblock what they find blocked.
    ChildProcess deaf({"/bin/sleep", "0.2"}, {}, ChildSignals::left_to_parent);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::kill(deaf.id(), signal);
    CHECK(deaf.wait() == 0);
    ChildProcess listens(kSleeper, {});
    ::kill(listens.id(), SIGTERM);
    CHECK(WTERMSIG(listens.wait()) == SIGTERM);
}

TEST_CASE("a program that is not there is unavailable") {
    CHECK_THROWS_AS(ChildProcess({"/no/such/program"}, {}), Error);
}
