// Lines from a pipe: whole, in pieces, unfinished, too long, and none when asked to stop.
#include "lib/base/line_reader.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "kernels/error.h"

namespace {

struct Pipe {
    std::array<int, 2> ends{};
    Pipe() { REQUIRE(::pipe(ends.data()) == 0); }
    ~Pipe() {
        ::close(ends[0]);
        close_input();
    }
    void write(const std::string& text) const {
        REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    }
    void close_input() {
        if (ends[1] >= 0) ::close(ends[1]);
        ends[1] = -1;
    }
};

const auto never = [] { return false; };

}  // namespace

TEST_CASE("lines with either end, empty ones, and a last one without an end") {
    Pipe pipe;
    pipe.write("one\ntwo\r\n\nlast");
    pipe.close_input();
    nvllm::LineReader reader(pipe.ends[0], "pipe");
    CHECK(reader.next(never) == "one");
    CHECK(reader.next(never) == "two");
    CHECK(reader.next(never) == "");
    CHECK(reader.next(never) == "last");
    CHECK_FALSE(reader.next(never));
    CHECK_FALSE(reader.next(never));
}

TEST_CASE("a line is given as soon as it is whole, though the pipe stays open") {
    Pipe pipe;
    nvllm::LineReader reader(pipe.ends[0], "pipe");
    std::thread writer([&] {
        pipe.write("fir");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        pipe.write("st\nsec");
    });
    CHECK(reader.next(never) == "first");
    writer.join();
    CHECK_FALSE(reader.next([] { return true; }));
    pipe.write("ond\n");
    CHECK(reader.next(never) == "second");
}

TEST_CASE("everything that is left") {
    Pipe pipe;
    pipe.write("first\nand\nthe rest\n");
    pipe.close_input();
    nvllm::LineReader reader(pipe.ends[0], "pipe");
    CHECK(reader.next(never) == "first");
    CHECK(reader.rest(never) == "and\nthe rest\n");
}

TEST_CASE("a line without end is refused at the limit") {
    Pipe pipe;
    pipe.write(std::string(1000, 'x'));
    nvllm::LineReader reader(pipe.ends[0], "pipe", 100);
    CHECK_THROWS_AS(reader.next(never), nvllm::Error);
}
