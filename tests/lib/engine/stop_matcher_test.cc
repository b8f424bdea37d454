// Stop strings across pieces: never missed, never leaked.
#include "lib/engine/stop_matcher.h"

#include <doctest/doctest.h>

#include <random>

using nvllm::StopMatcher;

TEST_CASE("without stop strings everything is safe and nothing matches") {
    const StopMatcher matcher({});
    CHECK(matcher.safe_length("any text") == 8);
    CHECK_FALSE(matcher.find("any text", 0));
}

TEST_CASE("a beginning of a stop string is held back until it cannot become one") {
    const StopMatcher matcher({"END", "\n\n"});
    CHECK(matcher.safe_length("abcE") == 3);
    CHECK(matcher.safe_length("abcEN") == 3);
    CHECK(matcher.safe_length("abcEx") == 5);
    CHECK(matcher.safe_length("abc\n") == 3);
    CHECK(matcher.safe_length("E") == 0);
}

TEST_CASE("the earliest of several matches wins") {
    const StopMatcher matcher({"later", "first"});
    const auto match = matcher.find("the first and the later", 0);
    REQUIRE(match);
    CHECK(match->begin == 4);
    CHECK(match->end == 9);
    CHECK(match->index == 1);
}

TEST_CASE("what is held back of strings that begin like themselves is as much as could be needed") {
    const std::string text = "abaababaabaababaababa";
    const std::vector<std::string> stops = {"abaabaa", "babab", "aaaa"};
    const StopMatcher matcher(stops);
    for (size_t length = 0; length <= text.size(); ++length) {
        const std::string seen = text.substr(0, length);
        size_t held = 0;
        for (const std::string& stop : stops) {
            for (size_t n = 1; n < stop.size() && n <= seen.size(); ++n) {
                if (seen.ends_with(stop.substr(0, n))) held = std::max(held, n);
            }
        }
        CAPTURE(seen);
        CHECK(matcher.safe_length(seen) == seen.size() - held);
    }
}

TEST_CASE(
    "text in random pieces stops where the whole text does and shows nothing of the stop string") {
    std::mt19937 generator(11);
    int stopped = 0;
    for (int round = 0; round < 2000; ++round) {
        std::string text;
        for (int i = 0; i < 24; ++i) text += "ab\n"[generator() % 3];
        std::vector<std::string> stops;
        for (int i = 0; i < 2; ++i) {
            std::string stop;
            for (size_t n = 1 + generator() % 4; n > 0; --n) stop += "ab\n"[generator() % 3];
            stops.push_back(stop);
        }
        const StopMatcher matcher(stops);
        // The whole answer stops at the match that ends first, since generation ends there.
        size_t first_end = std::string::npos;
        for (const std::string& stop : stops) {
            const size_t begin = text.find(stop);
            if (begin != std::string::npos) first_end = std::min(first_end, begin + stop.size());
        }
        std::string seen;
        std::string shown;
        bool done = false;
        for (size_t at = 0; at < text.size() && !done;) {
            const size_t count = std::min(text.size() - at, size_t{1});
            const size_t searched = seen.size();
            seen += text.substr(at, count);
            at += count;
            if (const auto match = matcher.find(seen, searched)) {
                done = true;
                CHECK(match->end == first_end);
                shown = seen.substr(0, match->begin);
                ++stopped;
            } else {
                const std::string safe = seen.substr(0, matcher.safe_length(seen));
                CHECK(safe.size() >= shown.size());
                shown = safe;
                for (const std::string& stop : stops) CHECK(shown.find(stop) == std::string::npos);
            }
        }
        CHECK(done == (first_end != std::string::npos));
    }
    CHECK(stopped > 500);
}
