// Keys and what they may ask for, with a clock that stands still unless it is moved.
#include "lib/server/access/api_keys.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "kernels/error.h"
#include "tests/error_of.h"

using namespace nvllm;
using namespace nvllm::server;
using std::chrono::seconds;

namespace {

using Clock = KeyUse::Clock;

bool enters(KeyUse& use, Clock::time_point now) { return !use.enter(now).has_value(); }

std::filesystem::path key_file(const std::string& text) {
    const auto path = std::filesystem::temp_directory_path() / "nvllm_access_test_keys.txt";
    std::ofstream(path) << text;
    return path;
}

std::string refusal(const std::string& text) {
    return nvllm::test::error_of(nvllm::ErrorKind::bad_config,
                                 [&] { read_key_file(key_file(text)); });
}

}  // namespace

TEST_CASE("key use: requests come back evenly over a minute") {
    KeyUse use({.requests_per_minute = 6.0});
    const Clock::time_point start = Clock::now() + seconds(1);
    for (int i = 0; i < 6; ++i) CHECK(enters(use, start));
    const auto refused = use.enter(start);
    REQUIRE(refused);
    CHECK(refused->status == 429);
    CHECK(refused->code == "rate_limit_exceeded");
    CHECK(error_type(*refused) == "rate_limit_error");
    CHECK(refused->retry_after_s == 10);
    CHECK(!enters(use, start + seconds(9)));
    CHECK(use.enter(start + seconds(9))->retry_after_s == 1);
    CHECK(enters(use, start + seconds(10)));
    CHECK(!enters(use, start + seconds(10)));
    // However long nobody asks, no more than a minute's gather.
    for (int i = 0; i < 6; ++i) CHECK(enters(use, start + seconds(10'000)));
    CHECK(!enters(use, start + seconds(10'000)));
}

TEST_CASE("key use: tokens count when they are known, and a debt is waited for") {
    KeyUse use({.tokens_per_minute = 60.0});
    const Clock::time_point start = Clock::now() + seconds(1);
    CHECK(enters(use, start));
    CHECK(enters(use, start));
    use.leave({90, 10}, start);
    CHECK(use.enter(start)->retry_after_s == 41);
    use.leave({20, 0}, start);
    CHECK(use.enter(start)->retry_after_s == 61);
    CHECK(!enters(use, start + seconds(60)));
    CHECK(enters(use, start + seconds(61)));
}

TEST_CASE("key use: so many at once, and a refused one is not one of them") {
    const Clock::time_point now = Clock::now();
    KeyUse use({.concurrency = 2});
    CHECK(enters(use, now));
    CHECK(enters(use, now));
    CHECK(!enters(use, now));
    CHECK(use.num_open() == 2);
    use.leave({}, now);
    CHECK(enters(use, now));
    CHECK(use.num_open() == 2);
}

TEST_CASE("key use: what one limit refuses costs nothing of another") {
    const Clock::time_point now = Clock::now();
    KeyUse use({.requests_per_minute = 2.0, .concurrency = 1});
    CHECK(enters(use, now));
    for (int i = 0; i < 5; ++i) CHECK(!enters(use, now));
    use.leave({}, now);
    CHECK(enters(use, now));
    use.leave({}, now);
    CHECK(use.enter(now)->message.find("2 requests a minute") != std::string::npos);
    CHECK(use.num_open() == 0);
}

TEST_CASE("key use: without limits everything is let in") {
    KeyUse use({});
    for (int i = 0; i < 1000; ++i) CHECK(enters(use, Clock::now()));
    CHECK(use.num_open() == 1000);
}

TEST_CASE("key turns: counted out once, with or without a word") {
    const auto use = std::make_shared<KeyUse>(KeyLimits{.concurrency = 2});
    const auto enter = [&] {
        REQUIRE(!use->enter(Clock::now()));
        return KeyPermit(use);
    };
    {
        KeyPermit one = enter();
        KeyPermit other = enter();
        CHECK(use->num_open() == 2);
        one.leave({3, 2});
        one.leave({3, 2});
        CHECK(use->num_open() == 1);
        KeyPermit moved = std::move(other);
        CHECK(use->num_open() == 1);
        moved = KeyPermit();
        CHECK(use->num_open() == 0);
        one = enter();
    }
    CHECK(use->num_open() == 0);
}

TEST_CASE("key use: what came of a key's requests is counted, also when its limits change") {
    const Clock::time_point now = Clock::now();
    KeyRing ring;
    ring.replace({make_key("alice", "sk-1", {.concurrency = 1})});
    const auto use = ring.find("Bearer sk-1")->use;
    CHECK(enters(*use, now));
    CHECK(!enters(*use, now));
    use->leave({.prompt_tokens = 7, .completion_tokens = 2}, now);
    const auto check = [&](const KeyCounts& counts, int64_t requests) {
        CHECK(counts.requests == requests);
        CHECK(counts.refused == 1);
        CHECK(counts.prompt_tokens == 7);
        CHECK(counts.generated_tokens == 2);
    };
    check(use->counts(), 1);
    ring.replace({make_key("alice", "sk-1", {.concurrency = 2})});
    const auto changed = ring.find("Bearer sk-1")->use;
    CHECK(changed != use);
    CHECK(enters(*changed, now));
    check(changed->counts(), 2);
}

TEST_CASE("key files: names, limits, comments") {
    const auto keys = read_key_file(
        key_file("# who\n\n  sk-a  \nbob:sk-b rpm=60 tpm=1e5\tconcurrency=8\r\ncarol:sk:c\n"));
    REQUIRE(keys.size() == 3);
    CHECK(keys[0].name == "key-3");
    CHECK(keys[0].limits == KeyLimits{});
    CHECK(keys[1].name == "bob");
    CHECK(keys[1].limits == KeyLimits{60.0, 100'000.0, 8});
    CHECK(keys[2].name == "carol");
    CHECK(keys[2].digest == make_key("", "sk:c").digest);
}

TEST_CASE("key files: what is wrong is said with its line") {
    for (const char* line : {"a:b rpm=0", "a:b rpm=-1", "a:b rpm=x", "a:b rpm", "a:b rps=1",
                             "a:b concurrency=0.5", "a:b rpm=1 more", "a:b tpm=", ":b", "a:"}) {
        CAPTURE(line);
        CHECK(refusal("good:key\n" + std::string(line) + "\n").find(".txt:2: ") !=
              std::string::npos);
    }
    CHECK(refusal("# nothing\n\n").find("holds no key") != std::string::npos);
    CHECK_THROWS_AS(read_key_file("/nowhere/keys"), Error);
}

TEST_CASE("key ring: the whole key, and nothing but the key") {
    KeyRing ring;
    CHECK(ring.empty());
    CHECK(!ring.find("Bearer "));
    CHECK(!ring.find(""));
    ring.replace({make_key("alice", "sk-1"), make_key("bob", "sk-12")});
    CHECK(ring.size() == 2);
    CHECK(ring.find("Bearer sk-1")->name == "alice");
    CHECK(ring.find("bearer sk-12")->name == "bob");
    for (const char* wrong :
         {"sk-1", "Bearer", "Bearer ", "Bearer  sk-1", "Bearer sk-1 ", "Bearer sk-",
          "Bearer sk-123", "Bearer SK-1", "Basic sk-1", "Bearersk-1", "Bearer sk-1,sk-12"}) {
        CAPTURE(wrong);
        CHECK(!ring.find(wrong));
    }
}

TEST_CASE("key ring: keys that stay keep what they have used, unless their limits changed") {
    const Clock::time_point now = Clock::now();
    const KeyLimits two{.requests_per_minute = 2.0}, three{.requests_per_minute = 3.0};
    KeyRing ring;
    ring.replace({make_key("a", "1", two), make_key("b", "2", two), make_key("c", "3", two)});
    for (const char* key : {"Bearer 1", "Bearer 2", "Bearer 3"}) {
        const auto use = ring.find(key)->use;
        while (!use->enter(now)) use->leave({}, now);
    }
    ring.replace({make_key("a", "1", two), make_key("b", "2", three), make_key("other", "3", two)});
    CHECK(!enters(*ring.find("Bearer 1")->use, now));
    CHECK(enters(*ring.find("Bearer 2")->use, now));
    CHECK(enters(*ring.find("Bearer 3")->use, now));
    CHECK(ring.size() == 3);
}
