// What is refused on sight of a head, in which order, at which address.
#include "lib/server/access/request_filter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/server/routes/route_table.h"

using namespace nvllm::server;

namespace {

struct FilteredServer {
    FilterOptions options;
    KeyRing keys;
    RequestFilter filter{route_table(), options, keys};
    Endpoint endpoint{.host = "127.0.0.1", .port = 8000, .unix_socket = {}, .descriptor = {}};
    bool is_shutting_down = false;

    std::optional<HttpResponse> ask(const std::string& method, const std::string& path,
                                    std::vector<HttpHeader> headers = {}) const {
        HttpRequest head;
        head.method = method;
        head.target = head.path = path;
        head.headers = std::move(headers);
        if (head.header("Host") == nullptr) head.headers.push_back({"Host", "127.0.0.1:8000"});
        return filter.check(head, endpoint, is_shutting_down);
    }

    // 0: let in.
    int status(const std::string& method, const std::string& path,
               std::vector<HttpHeader> headers = {}) const {
        const auto answer = ask(method, path, std::move(headers));
        return answer ? answer->status : 0;
    }

    std::string code(const std::string& method, const std::string& path,
                     std::vector<HttpHeader> headers = {}) const {
        const auto answer = ask(method, path, std::move(headers));
        REQUIRE(answer);
        const auto body = nlohmann::json::parse(answer->body);
        return body["error"]["code"].get<std::string>();
    }
};

const std::string* header(const HttpResponse& response, const std::string& name) {
    const auto found = std::ranges::find(response.headers, name, &HttpHeader::name);
    return found == response.headers.end() ? nullptr : &found->value;
}

const std::string kCompletions = "/v1/completions";

}  // namespace

TEST_CASE("request filter: routes, methods, types") {
    const FilteredServer server;
    CHECK(server.status("POST", kCompletions) == 0);
    CHECK(server.status("GET", "/ready") == 0);
    CHECK(server.status("HEAD", "/v1/models/x") == 0);
    CHECK(server.code("GET", "/nope") == "not_found");
    CHECK(server.code("POST", "/admin/drain") == "not_found");
    CHECK(server.code("GET", kCompletions) == "method_not_allowed");
    CHECK(*header(*server.ask("GET", kCompletions), "Allow") == "POST, OPTIONS");
    CHECK(server.code("POST", kCompletions, {{"Content-Type", "text/plain"}}) ==
          "unsupported_media_type");
    for (const char* type : {"application/json", "APPLICATION/JSON",
                             "application/json; charset=utf-8", "application/json ; x=y"}) {
        CHECK(server.status("POST", kCompletions, {{"Content-Type", type}}) == 0);
    }
    for (const char* type : {"application/jsonl", "text/json", "", ";", " "}) {
        CHECK(server.status("POST", kCompletions, {{"Content-Type", type}}) == 415);
    }
    const auto hint = server.ask("GET", "/chat/completions");
    CHECK(hint->status == 404);
    CHECK(hint->body.find("did you mean /v1/chat/completions?") != std::string::npos);
}

TEST_CASE("request filter: encoded bodies are refused, whatever is in them") {
    const FilteredServer server;
    for (const char* encoding : {"gzip", "GZIP", "deflate", "br", "zstd", "identity, gzip"}) {
        CAPTURE(encoding);
        const auto refused = server.ask("POST", kCompletions, {{"Content-Encoding", encoding}});
        REQUIRE(refused);
        CHECK(refused->status == 415);
        CHECK(*header(*refused, "Accept-Encoding") == "identity");
    }
    CHECK(server.status("POST", kCompletions, {{"Content-Encoding", "identity"}}) == 0);
    CHECK(server.status("POST", kCompletions, {{"Content-Encoding", ""}}) == 0);
}

TEST_CASE("request filter: keys for everything that is not open") {
    FilteredServer server;
    server.keys.replace({make_key("a", "sk-1")});
    const HttpHeader right{"Authorization", "Bearer sk-1"}, wrong{"Authorization", "Bearer sk-2"};
    CHECK(server.status("GET", "/ready") == 0);
    CHECK(server.status("GET", "/openapi.json") == 0);
    for (const auto& [method, path] :
         {std::pair("POST", kCompletions), std::pair("GET", std::string("/v1/models")),
          std::pair("GET", std::string("/metrics")),
          std::pair("GET", std::string("/nvllm/status"))}) {
        CAPTURE(path);
        CHECK(server.code(method, path) == "invalid_api_key");
        CHECK(server.status(method, path, {wrong}) == 401);
        CHECK(server.status(method, path, {right}) == 0);
    }
    // What is not there needs no key to be found missing; a key is asked for before the type.
    CHECK(server.status("GET", "/nope") == 404);
    CHECK(server.status("GET", kCompletions) == 405);
    CHECK(server.status("POST", kCompletions, {{"Content-Type", "text/plain"}}) == 401);
    CHECK(*header(*server.ask("POST", kCompletions), "WWW-Authenticate") == "Bearer");
}

TEST_CASE("request filter: metrics without a key, where it is meant so") {
    FilteredServer server;
    server.keys.replace({make_key("a", "sk-1")});
    server.options.metrics_without_key = true;
    CHECK(server.status("GET", "/metrics") == 0);
    CHECK(server.status("GET", "/v1/models") == 401);
    CHECK(server.status("GET", "/nvllm/status") == 401);
}

TEST_CASE("request filter: addresses for metrics and administration") {
    FilteredServer server;
    server.keys.replace({make_key("a", "sk-1")});
    server.endpoint.role = EndpointRole::metrics;
    CHECK(server.status("GET", "/metrics") == 0);
    CHECK(server.status("GET", "/ready") == 0);
    CHECK(server.status("GET", "/v1/models") == 404);
    CHECK(server.status("POST", kCompletions) == 404);
    CHECK(server.status("POST", "/admin/drain") == 404);
    server.endpoint = {
        .role = EndpointRole::admin, .host = "", .unix_socket = "/x", .descriptor = {}};
    CHECK(server.status("POST", "/admin/drain") == 0);
    CHECK(server.status("POST", kCompletions) == 0);
}

TEST_CASE("request filter: at the loopback only its names are answered to") {
    FilteredServer server;
    const auto status = [&](const std::string& host) {
        return server.status("POST", kCompletions, {{"Host", host}});
    };
    for (const char* host : {"127.0.0.1", "127.0.0.1:1", "localhost", "localhost:8000",
                             "[::1]:8000", "[::1]", "127.9.9.9"}) {
        CHECK(status(host) == 0);
    }
    for (const char* host : {"evil.example", "127.0.0.1.evil.example", "127.evil", "localhost.evil",
                             "", ":8000", "[::2]", "["}) {
        CAPTURE(host);
        CHECK(status(host) == 403);
    }
    server.options.allowed_hosts = {"llm.example"};
    CHECK(status("llm.example:80") == 0);
    server.endpoint.host = "0.0.0.0";
    CHECK(status("evil.example") == 0);
    server.endpoint = {.host = "", .unix_socket = "/x", .descriptor = {}};
    CHECK(status("evil.example") == 0);
}

TEST_CASE("request filter: pages of other sites") {
    FilteredServer server;
    const auto ask = [&](const std::string& origin) {
        return server.ask("POST", kCompletions, {{"Origin", origin}});
    };
    CHECK(!ask("http://127.0.0.1:8000"));
    for (const char* origin :
         {"https://evil.example", "null", "", "127.0.0.1:8000", "http://localhost.evil.example",
          "http://127.0.0.1.evil.example:8000", "chrome-extension://abc"}) {
        CAPTURE(origin);
        REQUIRE(ask(origin));
        CHECK(ask(origin)->status == 403);
        CHECK(ask(origin)->body.find("--allowed-origins") != std::string::npos);
        CHECK(header(*ask(origin), "Access-Control-Allow-Origin") == nullptr);
    }
    server.options.allowed_origins = {"https://chat.example"};
    CHECK(!ask("https://chat.example"));
    CHECK(ask("https://evil.example")->status == 403);
    CHECK(ask("http://chat.example")->status == 403);
    const auto preflight =
        server.ask("OPTIONS", kCompletions, {{"Origin", "https://chat.example"}});
    CHECK(preflight->status == 204);
    CHECK(*header(*preflight, "Access-Control-Allow-Origin") == "https://chat.example");
    CHECK(*header(*preflight, "Access-Control-Allow-Methods") == "POST, OPTIONS");
    const auto refused = server.ask("GET", "/nope", {{"Origin", "https://chat.example"}});
    CHECK(*header(*refused, "Access-Control-Allow-Origin") == "https://chat.example");
    server.options.allowed_origins = {"*"};
    CHECK(!ask("https://anybody.example"));
}

TEST_CASE(
    "request filter: pages and programs of this machine need no naming, unless that is switched "
    "off") {
    FilteredServer server;
    const std::string app = "app://obsidian.md", page = "http://localhost:5173";
    for (const std::string& origin : {app, page}) {
        CHECK(server.status("POST", kCompletions, {{"Origin", origin}}) == 0);
        const auto preflight = server.ask("OPTIONS", kCompletions, {{"Origin", origin}});
        CHECK(*header(*preflight, "Access-Control-Allow-Origin") == origin);
    }
    server.options.local_origins = false;
    for (const std::string& origin : {app, page}) {
        CHECK(server.status("POST", kCompletions, {{"Origin", origin}}) == 403);
    }
    // The server's own page stays, by whatever name of the loopback it was opened.
    for (const char* host : {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"}) {
        CHECK(server.status("POST", kCompletions,
                            {{"Origin", "http://localhost:8000"}, {"Host", host}}) == 0);
    }
}

TEST_CASE("request filter: a preflight is let send the headers it asks for") {
    const FilteredServer server;
    const auto allowed = [&](std::vector<HttpHeader> more) {
        more.push_back({"Origin", "http://localhost:5173"});
        return *header(*server.ask("OPTIONS", kCompletions, more), "Access-Control-Allow-Headers");
    };
    const std::string asked = "authorization,content-type,x-stainless-arch,x-stainless-timeout";
    CHECK(allowed({{"Access-Control-Request-Headers", asked}}) == asked);
    CHECK(allowed({}) == "Authorization, Content-Type, X-Request-Id");
    // Nothing but names comes back.
    CHECK(allowed({{"Access-Control-Request-Headers", "x-a: b;\x01\xff, <x>"}}) == "x-a b, x");
    const auto foreign =
        server.ask("OPTIONS", kCompletions,
                   {{"Origin", "https://evil.example"}, {"Access-Control-Request-Headers", asked}});
    CHECK(foreign->status == 403);
    CHECK(header(*foreign, "Access-Control-Allow-Headers") == nullptr);
}

const std::vector<HttpHeader> kUpgrade = {{"Upgrade", "websocket"},
                                          {"Connection", "keep-alive, Upgrade"},
                                          {"Sec-WebSocket-Version", "13"},
                                          {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}};

std::vector<HttpHeader> upgrade_with(const HttpHeader& other) {
    std::vector<HttpHeader> headers = kUpgrade;
    const auto same = std::ranges::find(headers, other.name, &HttpHeader::name);
    if (same == headers.end()) {
        headers.push_back(other);
    } else {
        same->value = other.value;
    }
    return headers;
}

TEST_CASE("request filter: upgrades to WebSocket are let in where a body is expected, with a key") {
    FilteredServer server;
    CHECK(server.status("GET", kCompletions, kUpgrade) == 0);
    CHECK(server.status("GET", "/v1/chat/completions", upgrade_with({"Upgrade", "WebSocket"})) ==
          0);
    CHECK(server.status("GET", kCompletions, {{"Upgrade", "h2c"}}) == 405);
    server.keys.replace({make_key("a", "sk-1")});
    CHECK(server.status("GET", kCompletions, kUpgrade) == 401);
    CHECK(server.status("GET", kCompletions, upgrade_with({"Authorization", "Bearer sk-1"})) == 0);
}

TEST_CASE("request filter: upgrades that are not right are refused as all else is") {
    const FilteredServer server;
    for (const auto& [other, status] : {std::pair(HttpHeader{"Sec-WebSocket-Version", "8"}, 426),
                                        std::pair(HttpHeader{"Connection", "keep-alive"}, 400),
                                        std::pair(HttpHeader{"Sec-WebSocket-Key", "short"}, 400)}) {
        CAPTURE(other.name);
        CHECK(server.status("GET", kCompletions, upgrade_with(other)) == status);
        CHECK(server.code("GET", kCompletions, upgrade_with(other)) == "bad_upgrade");
    }
    const auto old = server.ask("GET", kCompletions, upgrade_with({"Sec-WebSocket-Version", "8"}));
    CHECK(*header(*old, "Sec-WebSocket-Version") == "13");
    CHECK(*header(*old, "Upgrade") == "websocket");
    // Pages may open sockets anywhere: their origin is looked at as that of other requests.
    CHECK(server.code("GET", kCompletions, upgrade_with({"Origin", "https://evil.example"})) ==
          "forbidden_origin");
    CHECK(server.status("GET", kCompletions, upgrade_with({"Origin", "http://localhost:5173"})) ==
          0);
}

TEST_CASE("request filter: while the server ends, no work is begun and looking goes on") {
    FilteredServer server;
    server.is_shutting_down = true;
    const auto refused = server.ask("POST", kCompletions);
    REQUIRE(refused);
    CHECK(refused->status == 503);
    CHECK(refused->closes);
    CHECK(server.code("POST", kCompletions) == "shutting_down");
    CHECK(server.status("GET", kCompletions, kUpgrade) == 503);
    CHECK(server.status("GET", "/ready") == 0);
    CHECK(server.status("GET", "/v1/models") == 0);
}

TEST_CASE("request filter: OPTIONS") {
    FilteredServer server;
    server.keys.replace({make_key("a", "sk-1")});
    CHECK(server.ask("OPTIONS", "*")->status == 204);
    CHECK(server.ask("OPTIONS", kCompletions)->status == 204);
    CHECK(server.ask("OPTIONS", "/nope")->status == 404);
    CHECK(header(*server.ask("OPTIONS", kCompletions), "Access-Control-Allow-Methods") == nullptr);
}
