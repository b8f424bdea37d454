// Patterns of origins, and which origins are local.
#include "lib/server/access/origins.h"

#include <doctest/doctest.h>

using namespace nvllm::server;

namespace {

struct Row {
    const char* pattern;
    const char* origin;
    bool matches;
};

}  // namespace

TEST_CASE("origins: patterns") {
    constexpr Row kRows[] = {
        {"*", "https://any.example", true},
        {"*", "null", true},
        {"https://a.example", "https://a.example", true},
        {"https://a.example", "https://a.example:8443", false},
        {"https://a.example", "http://a.example", false},
        {"http://localhost:*", "http://localhost:5173", true},
        {"http://localhost:*", "http://localhost", true},
        {"http://localhost:*", "http://localhost:", false},
        {"http://localhost:*", "http://localhost:80x", false},
        {"http://localhost:*", "http://localhost.evil.example", false},
        {"http://localhost:*", "http://localhost:1.evil.example", false},
        {"http://localhost:*", "http://evil.example:5173", false},
        {"http://localhost:*", "https://localhost:5173", false},
        {"http://[::1]:*", "http://[::1]:3000", true},
        {"http://[::1]:*", "http://[::1]", true},
        {"https://*.a.example", "https://b.a.example", true},
        {"https://*.a.example", "https://c.b.a.example", true},
        {"https://*.a.example", "https://a.example", false},
        {"https://*.a.example", "https://b.a.example:1", false},
        {"https://*.a.example:*", "https://b.a.example:1", true},
        {"https://*.a.example", "https://evil.example/.a.example", false},
        {"https://*.a.example", "https://evil.example:1@b.a.example", false},
        {"chrome-extension://*", "chrome-extension://abcdefgh", true},
        {"chrome-extension://*", "moz-extension://abcdefgh", false},
        {"file://*", "file://", true},
        {"null", "null", true},
        {"", "https://a.example", false},
    };
    for (const Row& row : kRows) {
        CAPTURE(row.pattern);
        CAPTURE(row.origin);
        CHECK(matches_origin(row.pattern, row.origin) == row.matches);
    }
}

TEST_CASE("origins: local ones are those that no page of the web can have") {
    for (const char* origin :
         {"http://localhost", "http://localhost:3000", "https://localhost:3000",
          "http://127.0.0.1:8080", "http://[::1]:5173", "http://0.0.0.0:7860", "app://obsidian.md",
          "app://-", "file://", "tauri://localhost", "http://tauri.localhost",
          "https://tauri.localhost", "vscode-webview://1k2j3h4g", "vscode-file://vscode-app"}) {
        CAPTURE(origin);
        CHECK(is_local_origin(origin));
    }
    for (const char* origin :
         {"null", "", "localhost:3000", "https://example.org", "http://localhost.example.org",
          "http://192.168.1.7:3000", "http://127.0.0.1.example.org", "chrome-extension://abcdefgh",
          "http://example.org:localhost", "http://app://x"}) {
        CAPTURE(origin);
        CHECK(!is_local_origin(origin));
    }
}

TEST_CASE("origins: the same host, by whatever name of the loopback") {
    CHECK(is_same_origin("http://box.lan:8000", "box.lan:8000"));
    CHECK(is_same_origin("http://localhost:8000", "127.0.0.1:8000"));
    CHECK(is_same_origin("http://127.0.0.1:8000", "[::1]:8000"));
    CHECK(is_same_origin("http://[::1]:8000", "localhost:8000"));
    for (const auto& [origin, host] :
         {std::pair("http://localhost:8001", "127.0.0.1:8000"),
          std::pair("http://localhost", "127.0.0.1:8000"),
          std::pair("http://box.lan:8000", "127.0.0.1:8000"),
          std::pair("http://evil.example:8000", "box.lan:8000"), std::pair("null", "null"),
          std::pair("", ""), std::pair("http://localhost.evil:8000", "localhost:8000")}) {
        CAPTURE(origin);
        CHECK(!is_same_origin(origin, host));
    }
}
