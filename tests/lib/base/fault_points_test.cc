// Rules of fault points: which hit strikes, and what then happens.
#include "lib/base/fault_points.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <new>

#include "kernels/error.h"
#include "tests/lib/base/captured_process.h"

using namespace nvllm;

namespace {

// Rules that end with the test.
struct Rules {
    explicit Rules(const std::string& text) { set_fault_points(text); }
    ~Rules() { set_fault_points(""); }
};

// The hits among the first `count` that throw, as digits.
std::string throwing_hits(const char* site, int count, int64_t subject = -1) {
    std::string hits;
    for (int hit = 1; hit <= count; ++hit) {
        try {
            fault_point(site, subject);
        } catch (const Error&) {
            hits += std::to_string(hit);
        }
    }
    return hits;
}

}  // namespace

TEST_CASE("the N-th hit, all from the N-th on, or all strike") {
    const Rules rules("a:3=throw;b:2+=throw;c:*=throw");
    CHECK(throwing_hits("a", 5) == "3");
    CHECK(throwing_hits("b", 5) == "2345");
    CHECK(throwing_hits("c", 3) == "123");
    CHECK(throwing_hits("d", 3).empty());
}

TEST_CASE("a rule with a subject counts only that one's hits") {
    const Rules rules("a@7:2=throw");
    CHECK(throwing_hits("a", 3, 6).empty());
    CHECK(throwing_hits("a", 3).empty());
    CHECK(throwing_hits("a", 3, 7) == "2");
}

TEST_CASE("each action does what it says") {
    const Rules rules("n:*=nan;e:*=errno=28;m:*=bad_alloc;s:*=sleep=20");
    CHECK(fault_point("n").not_a_number);
    CHECK(fault_point("e").error_number == ENOSPC);
    CHECK_FALSE(fault_point("e").not_a_number);
    CHECK_THROWS_AS(fault_point("m"), std::bad_alloc);
    const auto begin = std::chrono::steady_clock::now();
    fault_point("s");
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20));
    const test::CapturedProcess ended = test::run_captured([] {
        set_fault_points("x:*=abort");
        fault_point("x");
        return 0;
    });
    CHECK(ended.exit_code == 128 + SIGABRT);
    const test::CapturedProcess killed = test::run_captured([] {
        set_fault_points("x:*=say;x:2=kill");
        fault_point("x");
        fault_point("x");
        return 0;
    });
    CHECK(killed.exit_code == 128 + SIGKILL);
    CHECK(killed.output == "fault point x\nfault point x\n");
}

TEST_CASE("several rules of one site strike together, and new rules count anew") {
    const Rules rules("a:*=nan;a:2=errno=5");
    CHECK(fault_point("a").error_number == 0);
    const InjectedFault both = fault_point("a");
    CHECK(both.not_a_number);
    CHECK(both.error_number == 5);
    set_fault_points("a:1=throw;");
    CHECK(throwing_hits("a", 2) == "1");
}

TEST_CASE("what is no rule is refused, and the rules stay") {
    const Rules rules("a:*=throw");
    for (const char* text : {"a", "a:1", "a:=throw", "a:x=throw", "a:1=explode", "a:1=sleep",
                             "a:1=sleep=x", "a:1=throw=1", "a@:1=throw", "a:-1=throw"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(set_fault_points(text), Error);
    }
    CHECK(throwing_hits("a", 1) == "1");
}
