// The progress line, and the clocks.
#include "lib/cli/progress.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>

using namespace nvllm;

namespace {

// What comes out of a terminal, which may come in parts, up to `num_bytes`.
std::string read_text(int fd, size_t num_bytes) {
    std::string text(num_bytes, '\0');
    size_t filled = 0;
    while (filled < num_bytes) {
        const ssize_t got = ::read(fd, text.data() + filled, num_bytes - filled);
        if (got <= 0) break;
        filled += static_cast<size_t>(got);
    }
    text.resize(filled);
    return text;
}

}  // namespace

TEST_CASE("the line tells share and time left") {
    CHECK(Progress::line("Loading", 0, 100, 0.0) == "Loading  0 %");
    CHECK(Progress::line("Loading", 25, 100, 2.0) == "Loading  25 %  6 s left");
    CHECK(Progress::line("Loading", 100, 100, 8.0) == "Loading  100 %");
    CHECK(Progress::line("Loading", 5, 0, 8.0) == "Loading  100 %");
    CHECK(Progress::line("Loading", 300, 100, 0.0) == "Loading  100 %");
    CHECK(Progress::line("Loading", 3, 12, 2.0, true) == "Loading  25 %  3 of 12  6 s left");
    CHECK(Progress::line("Loading", 1, 100, 10.0) == "Loading  1 %  16 min left");
}

TEST_CASE("nothing is drawn where there is no terminal") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    ManualClock clock;
    {
        Progress progress("Loading", 10, clock, {.fd = ends[1]});
        clock.advance(5);
        progress.update(5);
    }
    ::close(ends[1]);
    char byte = 0;
    CHECK(::read(ends[0], &byte, 1) == 0);
    ::close(ends[0]);
}

TEST_CASE("a log gets a line now and then, where that is wanted") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    ManualClock clock;
    {
        Progress progress("Requests", 10, clock,
                          {.fd = ends[1], .shows_counts = true, .line_every_s = 10.0});
        for (uint64_t done = 0; done <= 10; ++done) {
            progress.update(done);
            clock.advance(3.0);
        }
    }
    ::close(ends[1]);
    const std::string expected =
        "Requests  40 %  4 of 10  18 s left\nRequests  80 %  8 of 10  6 s left\n";
    CHECK(read_text(ends[0], 1000) == expected);
    ::close(ends[0]);
}

TEST_CASE("a terminal shows it after a while and is left clean") {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return;
    const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
    REQUIRE(terminal >= 0);
    ManualClock clock;
    {
        Progress progress("Loading", 10, clock, {.fd = terminal});
        progress.update(1);  // too early
        clock.advance(1.0);
        progress.update(5);
        progress.update(6);  // too soon after
    }
    const std::string expected = "\r\033[KLoading  50 %  1 s left\r\033[K";
    CHECK(read_text(master, expected.size()) == expected);
    ::close(terminal);
    ::close(master);
}

TEST_CASE("clocks go forward") {
    MonotonicClock clock;
    const double before = clock.now_s();
    CHECK(clock.now_s() >= before);
    ManualClock manual;
    manual.advance(1.5);
    CHECK(manual.now_s() == 1.5);
}
